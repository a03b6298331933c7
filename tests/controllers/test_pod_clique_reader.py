"""Reads of a set past its cache: every question is answered, whatever became of the one before it."""

import asyncio
from collections.abc import Mapping

from echelon.api.grove import POD_CLIQUE_SET
from echelon.api.keys import Key
from echelon.controllers.pod_clique.set_reader import LAST_SECONDS, Answer, SetReader
from echelon.fleet.loop import run, running
from echelon.kube.informer import Informer
from tests.controllers.clique_world import NS, clique, clique_world, set_of
from tests.controllers.strict import end

KEY = Key(NS, "w")
FRONT, BACK = {"w-0-front": "uid-of-front"}, {"w-0-back": "uid-of-back"}


def answers_to(*questions: Mapping[str, str]) -> list[list[str]]:
    """Ask for the pods of cliques, one question after the other; return of which cliques the answers were."""

    async def story() -> list[list[str]]:
        heard: list[list[str]] = []

        def answered(_: Key, answer: Answer) -> None:
            heard.append(sorted(answer.pods))

        async with clique_world() as world:
            await world.apply(set_of(clique("front"), clique("back")))
            sets = Informer(world.client, POD_CLIQUE_SET.untyped(), random=running().random)
            reader = SetReader(world.client, sets, random=running().random, on_answer=answered)
            reads = asyncio.create_task(reader.run())
            for each in questions:
                reader.request(KEY, "1", each)
                await asyncio.sleep(2 * LAST_SECONDS)
            await end(reads)
        return heard

    return run(story())


def test_an_answer_that_does_not_help_is_asked_for_again() -> None:
    assert answers_to(FRONT, FRONT) == [["uid-of-front"]] * 2


def test_another_question_is_asked_after_one_whose_answers_did_not_help() -> None:
    heard = answers_to(FRONT, FRONT, FRONT, BACK, BACK, {**FRONT, **BACK})
    front, back = ["uid-of-front"], ["uid-of-back"]
    assert heard == [front, front, front, back, back, [*back, *front]], (
        "what is not answered keeps pods from being made"
    )
