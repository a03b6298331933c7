"""`python -m echelon.waiter` is `echelon-wait-for-cliques`."""

from echelon.waiter.command import main

main()
