"""What the controllers of a member do: they look at what is there, let `decide` judge, and write."""
