"""Answers of the entity API and of process languages as the console reads them: of which ``operations`` has no record.

Of those that others store, such as results of processes, a member that is missing is as empty.
"""

from statewright.entity import ModelKey
from statewright.operations.listings import ListedSearchJob
from statewright.operations.records import Members, Record, Value


class EnvelopeMeta(Record, frozen=True, kw_only=True):
    """What the service knows of a version of an entity (docs/reference/entities.md#the-envelope)."""

    id: str = ""
    state: str = ""
    transaction_id: str = ""
    creation_date: str = ""
    last_update_time: str = ""
    model_key: ModelKey = ModelKey("", 0)


class Envelope(Record, frozen=True, kw_only=True):
    """A version of an entity with its document."""

    data: Value = None
    meta: EnvelopeMeta


class PageOfResults(Record, frozen=True, kw_only=True):
    """Which page it is of how many."""

    total_pages: int = 0


class SearchResults(Record, frozen=True, kw_only=True):
    """A page of what a search job has found."""

    content: tuple[Envelope, ...] = ()
    page: PageOfResults = PageOfResults()


class SearchStatus(Record, frozen=True, kw_only=True):
    """How a search job is doing."""

    search_job_status: str
    entities_count: int = 0
    create_time: str = ""
    finish_time: str | None = None
    expiration_date: str | None = None

    def describe_job(self, id_: str) -> ListedSearchJob:
        """The job as lists have it, but of no known model."""
        return ListedSearchJob(
            id=id_,
            model=ModelKey("", 0),
            status=self.search_job_status,
            hits=self.entities_count,
            created_at=self.create_time,
            finished_at=self.finish_time,
            expires_at=self.expiration_date,
        )


class Message(Record, frozen=True, kw_only=True):
    """An edge message."""

    header: Members
    meta_data: Value = None
    content: Value = None


class Written(Record, frozen=True, kw_only=True):
    """What a write came to: the entities or messages that there are since."""

    transaction_id: str | None = None
    entity_ids: tuple[str, ...] = ()
