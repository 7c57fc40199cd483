"""Callbacks that join the transaction they are called from (docs/reference/workflows.md#callbacks)."""

import threading

from statewright.sdk import Node
from tests.builders import SAMPLE, a_processor, a_workflow, automated, manual
from tests.service import eventually, refused

NOTE = {"text": "", "n": 0}


def a_note_model(api) -> str:
    return api.a_model(model="note/1", sample=NOTE)


def test_a_callback_commits_with_its_owner_and_is_invisible_before(api, serving, callback):
    a_note_model(api)
    node, seen = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        note = joined.create({"text": "from inside", "n": 1}, model="note/1")
        seen["inside"] = joined.read(note.id)["data"]["text"]
        seen["outside"] = api.get(f"/entity/{note.id}").status_code
        seen["note"], seen["transaction"] = note.id, note.transaction

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    owner = api.create(model=model)
    assert seen["inside"] == "from inside"
    assert seen["outside"] == 404
    note = api.read(seen["note"])
    assert note["meta"]["transactionId"] == seen["transaction"] == owner.transaction


def test_what_a_callback_wrote_is_undone_when_the_owner_fails(api, serving, callback):
    a_note_model(api)
    node, written = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        written.append(callback(context).create({"text": "x", "n": 1}, model="note/1").id)
        raise ValueError("no luck")

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    refused(api.post(f"/entity/JSON/{model}", SAMPLE), 400, "WORKFLOW_FAILED")
    assert api.get(f"/entity/{written[0]}").status_code == 404
    assert api.get(f"/entity/{written[0]}/changes").status_code == 404


def test_a_failing_callback_leaves_its_owner_and_its_siblings_untouched(api, serving, callback):
    a_note_model(api)
    node, notes = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        notes["kept"] = joined.create({"text": "kept", "n": 1}, model="note/1").id
        refused(joined.post("/entity/JSON/note/1", {"text": 5}), 400, "INCOMPATIBLE_TYPE")
        refused(joined.put(f"/entity/JSON/{notes['kept']}/NOWHERE", NOTE), 404, "TRANSITION_NOT_FOUND")
        assert joined.read(notes["kept"])["data"]["text"] == "kept"

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    api.create(model=model)
    assert api.read(notes["kept"])["data"]["text"] == "kept"
    assert len(api.get(f"/entity/{notes['kept']}/changes").json()) == 1


def test_parallel_callbacks_follow_each_other_and_all_take_effect(api, serving, callback):
    a_note_model(api)
    node, note, statuses, created = Node(tags=["node"]), {}, [], []

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        note["id"] = joined.create({"text": "", "n": 0}, model="note/1").id
        begin = threading.Barrier(8)

        def work(number):
            begin.wait()
            statuses.append(joined.put(f"/entity/JSON/{note['id']}", {"text": f"{number}", "n": 1}).status_code)
            created.append(joined.create({"text": "side", "n": number}, model="note/1").id)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    serving(node)
    model = api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    api.create(model=model)
    assert statuses == [200] * 8
    assert {api.read(entity)["data"]["text"] for entity in created} == {"side"}
    assert len(api.get(f"/entity/{note['id']}/changes").json()) == 1  # one version per entity and transaction


def test_callbacks_nest_three_deep_and_commit_as_one(api, serving, callback):
    node, transactions = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        level = int(document["n"])
        transactions.append(context.transaction_id)
        if level < 3:
            callback(context).create({"n": level + 1}, model="nest/1")

    serving(node)
    workflow = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])
    model = api.a_model(workflow, model="nest/1", sample={"n": 0})
    owner = api.create({"n": 0}, model=model)
    assert transactions == [owner.transaction] * 4
    entities = api.get(f"/entity/{model}").json()
    assert sorted(entity["data"]["n"] for entity in entities) == [0, 1, 2, 3]
    assert {entity["meta"]["transactionId"] for entity in entities} == {owner.transaction}
    assert {entity["meta"]["state"] for entity in entities} == {"DONE"}


def test_a_deep_failure_undoes_its_own_level_only_when_the_level_above_survives_it(api, serving, callback):
    node = Node(tags=["node"])

    @node.processor("enrich")
    def enrich(document, context):
        level = int(document["n"])
        if level == 2:
            raise ValueError("too deep")
        answer = callback(context).post("/entity/JSON/nest/1", {"n": level + 1})
        assert (answer.status_code == 400) == (level == 1)

    serving(node)
    workflow = a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])
    model = api.a_model(workflow, model="nest/1", sample={"n": 0})
    api.create({"n": 0}, model=model)
    assert sorted(entity["data"]["n"] for entity in api.get(f"/entity/{model}").json()) == [0, 1]


def test_a_list_inside_the_transaction_shows_what_it_created_and_hides_what_it_deleted(api, serving, callback):
    a_note_model(api)
    kept, doomed = (api.create({"text": text, "n": 1}, model="note/1").id for text in ("kept", "doomed"))
    node, listed = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        joined = callback(context)
        listed["new"] = joined.create({"text": "new", "n": 1}, model="note/1").id
        assert joined.delete(f"/entity/{doomed}").status_code == 200
        listed["inside"] = {entity["meta"]["id"] for entity in joined.get("/entity/note/1").json()}
        listed["outside"] = {entity["meta"]["id"] for entity in api.get("/entity/note/1").json()}

    serving(node)
    api.create(model=api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])))
    assert listed["inside"] == {kept, listed["new"]}
    assert listed["outside"] == {kept, doomed}
    assert {entity["meta"]["id"] for entity in api.get("/entity/note/1").json()} == {kept, listed["new"]}


def test_a_token_is_refused_once_its_transaction_has_ended(api, service, serving, callback):
    node, held = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        held.append(context.tx_token)

    serving(node)
    api.create(model=api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])))
    refused(api.get("/entity/prize/1", X_Tx_Token=held[0]), 404, "TRANSACTION_NOT_FOUND")
    refused(api.get("/entity/prize/1", X_Tx_Token="forged.token"), 401, "UNAUTHORIZED")
    eventually(lambda: service.parts.runtime.core.transactions.count == 0)


def test_a_token_opens_nothing_to_another_tenant(api, service, serving, callback):
    node, answers = Node(tags=["node"]), []

    @node.processor("enrich")
    def enrich(document, context):
        stranger = service.api("somebody-else")
        answers.append(stranger.get("/entity/prize/1", X_Tx_Token=context.tx_token))

    serving(node)
    api.create(model=api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])))
    refused(answers[0], 403, "FORBIDDEN")


def test_writes_of_a_service_are_attributed_to_the_user_who_began(api, serving, callback):
    a_note_model(api)
    node, note = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        note["id"] = callback(context).create({"text": "x", "n": 1}, model="note/1").id

    serving(node)
    api.create(model=api.a_model(a_workflow(NEW=[automated("GO", to="DONE", processors=[a_processor()])], DONE=[])))
    [change] = api.get(f"/entity/{note['id']}/changes").json()
    assert (change["user"], change["executedBy"]) == ("alice", {"id": "node", "kind": "service"})


def test_the_secondary_entity_has_its_own_finish_event_under_the_owners_transaction(api, serving, callback):
    a_note_model(api)
    node, note = Node(tags=["node"]), {}

    @node.processor("enrich")
    def enrich(document, context):
        note["id"] = callback(context).create({"text": "x", "n": 1}, model="note/1").id

    serving(node)
    model = api.a_model(a_workflow(NEW=[manual("GO", to="DONE", processors=[a_processor()])], DONE=[]))
    entity = api.create(model=model).id
    fired = api.update(entity, fire="GO")
    finish = api.get(f"/audit/entity/{note['id']}/workflow/{fired.transaction}/finished").json()
    assert finish["details"] == "State machine finished"
