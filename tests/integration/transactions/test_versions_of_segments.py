"""Which versions a run of several segments leaves behind, and which ids name them (docs/transactions.md#versions).

The transaction that a client is told names the outcome of its run, and nothing else. What a segment made durable on the
way has an id of its own, so a precondition with it fails once the outcome is there: its reader has never seen that.
"""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from statewright.sdk import Node
from tests.builders import SAMPLE, Json, a_processor, a_workflow, automated, manual
from tests.integration.transactions.conftest import Serving
from tests.service import Api, Saved, done, names, refused

SEGMENTING = {"mode": "COMMIT_BEFORE_DISPATCH"}
WITH_TX = SEGMENTING | {"startNewTxOnDispatch": True}


def a_flow(*processors: Json) -> Json:
    """NEW -GO-> DONE with these processors."""
    return a_workflow(NEW=[manual("GO", to="DONE", processors=list(processors))], DONE=[])


def noted(note: str) -> Json:
    return SAMPLE | {"motivation": note}


def an_item(saved: Saved, note: str, **more: str) -> Json:
    """An item of a collection update."""
    return {"id": saved.id, "payload": json.dumps(noted(note)), **more}


def test_a_version_read_during_a_run_is_no_precondition_for_its_outcome(api: Api, serving: Serving) -> None:
    """A reader who saw what was submitted would overwrite what the processor made of it."""
    node, seen = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        seen["during"] = api.read(context.entity_id)["meta"]["transactionId"]
        return document | {"motivation": "processed"}

    serving(node)
    entity = api.create(model=api.a_model(a_flow(a_processor(**SEGMENTING)))).id
    fired = api.update(entity, noted("submitted"), fire="GO")
    refused(api.put(f"/entity/JSON/{entity}", noted("lost"), If_Match=seen["during"]), 412, "ENTITY_MODIFIED")
    assert api.read(entity)["data"]["motivation"] == "processed"
    api.update(entity, noted("on top"), If_Match=fired.transaction)


def test_a_version_read_during_a_run_is_a_precondition_as_long_as_it_is_the_current_one(
    api: Api, serving: Serving
) -> None:
    node, kept = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        during = api.read(context.entity_id)["meta"]["transactionId"]
        kept.append(api.update(context.entity_id, noted("meanwhile"), If_Match=during))

    serving(node)
    entity = api.create(model=api.a_model(a_flow(a_processor(**SEGMENTING)))).id
    refused(api.put(f"/entity/JSON/{entity}/GO", SAMPLE), 409, "CONFLICT")
    assert api.read(entity)["meta"]["transactionId"] == kept[0].transaction


@pytest.mark.parametrize("config", [SEGMENTING, WITH_TX], ids=["without", "with-tx"])
def test_every_version_of_a_run_has_an_id_of_its_own_and_the_answer_names_the_last(
    api: Api, serving: Serving, config: Json
) -> None:
    node, during = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        during.append(api.read(context.entity_id))
        return document | {"motivation": f"{len(during)}"}

    serving(node)
    flow = a_flow(a_processor(**config), a_processor(**config), a_processor(**config))
    created = api.create(model=api.a_model(flow))
    fired = api.update(created.id, noted("submitted"), fire="GO")
    outcome = api.read(created.id)
    assert [version["data"]["motivation"] for version in (*during, outcome)] == ["submitted", "1", "2", "3"]
    ids = [version["meta"]["transactionId"] for version in (*during, outcome)]
    assert len({*ids, created.transaction}) == 5
    assert fired.transaction not in ids[:-1]
    for version, id_ in zip((*during, outcome), ids, strict=True):
        assert api.read(created.id, f"?transactionId={id_}") == version
    assert api.read(created.id, f"?transactionId={fired.transaction}") == outcome
    changes = done(api.get(f"/entity/{created.id}/changes"))
    assert [change["transactionId"] for change in reversed(changes)] == [created.transaction, *ids]


def test_the_answered_transaction_names_nothing_before_the_outcome_is_there(api: Api, serving: Serving) -> None:
    """Though the trail of the run has it as its label from the first segment on."""
    node, during = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        trail = done(api.get(f"/audit/entity/{context.entity_id}?eventType=StateMachine"))["items"]
        during["label"] = trail[0]["transactionId"]
        during["read"] = api.get(f"/entity/{context.entity_id}?transactionId={during['label']}")
        during["write"] = api.put(f"/entity/JSON/{context.entity_id}", noted("lost"), If_Match=during["label"])

    serving(node)
    entity = api.create(model=api.a_model(a_flow(a_processor(**SEGMENTING)))).id
    fired = api.update(entity, fire="GO")
    assert during["label"] == fired.transaction
    refused(during["read"], 404, "ENTITY_NOT_FOUND")
    refused(during["write"], 412, "ENTITY_MODIFIED")
    assert names(api.events(entity, fired.transaction))[-1] == "STATE_MACHINE_FINISH"
    assert api.read(entity, f"?transactionId={fired.transaction}")["meta"]["state"] == "DONE"


def test_a_created_entity_is_named_by_its_answer_when_its_run_is_over(api: Api, serving: Serving) -> None:
    node, during = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        during.append(api.read(context.entity_id)["meta"]["transactionId"])
        return document | {"motivation": "processed"}

    serving(node)
    flow = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor(**SEGMENTING)])], DONE=[])
    created = api.create(model=api.a_model(flow))
    refused(api.put(f"/entity/JSON/{created.id}", SAMPLE, If_Match=during[0]), 412, "ENTITY_MODIFIED")
    api.update(created.id, If_Match=created.transaction)


def test_the_payload_of_a_callout_names_the_version_that_is_durable(api: Api, serving: Serving) -> None:
    """So that a processor without a transaction can write its entity under a precondition."""
    node, answers = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        answers.append((context.meta["transactionId"], api.read(context.entity_id)["meta"]["transactionId"]))

    serving(node)
    flow = a_flow(a_processor(**SEGMENTING), a_processor(**WITH_TX), a_processor(mode="SYNC"))
    api.update(api.create(model=api.a_model(flow)).id, fire="GO")
    assert [told for told, _ in answers] == [stored for _, stored in answers]


def test_items_after_a_segment_are_known_by_the_answered_transaction_too(api: Api, serving: Serving) -> None:
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: None)
    serving(node)
    model = api.a_model(a_flow(a_processor(**SEGMENTING)))
    ids = [api.create(model=model) for _ in range(3)]
    body = [
        an_item(ids[0], "first"),
        an_item(ids[1], "second", transition="GO"),
        an_item(ids[2], "third", ifMatch=ids[2].transaction),
    ]
    [answer] = done(api.put("/entity/JSON", body))
    for saved in ids:
        assert names(api.events(saved.id, answer["transactionId"]))[-1] == "STATE_MACHINE_FINISH"
        api.update(saved.id, If_Match=answer["transactionId"])


def test_an_entity_that_a_collection_names_before_and_after_a_segment_has_two_ids(api: Api, serving: Serving) -> None:
    """The reader of the first outcome has not seen the second."""
    node, during = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        during["version"] = api.read(first.id)

    serving(node)
    model = api.a_model(a_flow(a_processor(**SEGMENTING)))
    first, second = api.create(model=model), api.create(model=model)
    body = [an_item(first, "one"), an_item(second, "go", transition="GO"), an_item(first, "two")]
    done(api.put("/entity/JSON", body))
    seen = during["version"]
    assert seen["data"]["motivation"] == "one"
    assert api.read(first.id, f"?transactionId={seen['meta']['transactionId']}") == seen
    stale = api.put(f"/entity/JSON/{first.id}", noted("lost"), If_Match=seen["meta"]["transactionId"])
    refused(stale, 412, "ENTITY_MODIFIED")
    assert api.read(first.id)["data"]["motivation"] == "two"


class Witnesses:
    """Clients that share what they saw of one entity: which document each id names."""

    def __init__(self, api: Api, entity: str) -> None:
        self.api = api
        self.entity = entity
        self.known: dict[str, str] = {}
        self.accepted: list[tuple[str, str]] = []
        """Versions that were written under a precondition, and the document that their writer had seen."""
        self.over = threading.Event()
        self._lock = threading.Lock()

    def look(self) -> None:
        """Read the current version."""
        version = self.api.read(self.entity)
        self._keep(version["meta"]["transactionId"], version)

    def learn(self, id_: str) -> None:
        """Read what an id from the trail, the history or an answer names, if it names anything."""
        answer = self.api.get(f"/entity/{self.entity}?transactionId={id_}")
        if answer.status_code == 200:
            self._keep(id_, answer.json())

    def _keep(self, id_: str, version: Json) -> None:
        with self._lock:
            note = version["data"]["motivation"]
            assert self.known.setdefault(id_, note) == note, "an id names one version"

    def look_and_write(self, seed: int) -> None:
        """Write under ids that somebody came across lately, until it is over."""
        chance = random.Random(seed)
        for number in count():
            if self.over.is_set():
                return
            self.look()
            for item in done(self.api.get(f"/audit/entity/{self.entity}?limit=6"))["items"]:
                self.learn(item["transactionId"])
            with self._lock:
                id_, note = chance.choice(list(self.known.items())[-6:])
            answer = self.api.put(f"/entity/JSON/{self.entity}", noted(f"{seed}.{number}"), If_Match=id_)
            assert answer.status_code in {200, 409, 412}, answer.text
            if answer.status_code == 200:
                with self._lock:
                    self.accepted.append((answer.json()["transactionId"], note))

    def run(self, times: int, *, at_most: int) -> None:
        """Start runs without a precondition, one after the other, until enough writes came between them."""
        for number in range(at_most):
            if number >= times and len(self.accepted) >= 3:
                return
            answer = self.api.put(f"/entity/JSON/{self.entity}/GO", noted(f"run {number}"))
            assert answer.status_code in {200, 409}, answer.text
            if answer.status_code == 200:
                self.learn(answer.json()["transactionId"])


def test_no_id_that_a_reader_ever_saw_overwrites_what_it_did_not_see(api: Api, serving: Serving) -> None:
    """Readers write under every id they come across, while runs of three segments are under way on the same entity.

    Every write that was accepted must directly follow the very document that its writer knew under that id.
    """
    node = Node(tags=["node"])
    node.processor("enrich")(lambda document: document | {"motivation": document["motivation"] + "+"})
    serving(node)
    go = manual("GO", to="MID", processors=[a_processor(**SEGMENTING), a_processor(**WITH_TX)])
    on = automated("ON", to="NEW", processors=[a_processor(**SEGMENTING)])
    entity = api.create(model=api.a_model(a_workflow(NEW=[go], MID=[on]))).id
    witnesses = Witnesses(api, entity)
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(witnesses.look_and_write, seed) for seed in range(3)]
        try:
            witnesses.run(25, at_most=1000)
        finally:
            witnesses.over.set()
        for reader in readers:
            reader.result()

    history = done(api.get(f"/entity/{entity}/changes?limit=1000"))
    ids = [change["transactionId"] for change in reversed(history)]
    assert witnesses.accepted, "no write was accepted: the test shows nothing"
    for written, seen in witnesses.accepted:
        replaced = api.read(entity, f"?transactionId={ids[ids.index(written) - 1]}")
        assert replaced["data"]["motivation"] == seen, f"{written} replaced what its writer had not seen"
