"""The process languages of the program. To add one is to name it here (docs/process-languages.md)."""

from typing import Final

from statewright.flows.process_language import FLOWS
from statewright.ids import ModelId
from statewright.playbooks.process_language import PLAYBOOKS
from statewright.services.builtin import BuiltinModels
from statewright.services.flows import entity_api as flow_entity_api
from statewright.services.playbooks import entity_api as playbooks
from statewright.services.processes.hosting import ProcessHosts
from statewright.services.processes.installing import InstalledLanguage, install_language
from statewright.services.runtime import BuiltinTransition, Runtime
from statewright.services.steps import entity_api
from statewright.services.steps.jobs import to_job_record
from statewright.steps.process_language import STEPS

LANGUAGES: Final[tuple[InstalledLanguage, ...]] = (
    install_language(STEPS, transitions=entity_api.TRANSITIONS, render_job=to_job_record, shares_jobs=True),
    install_language(FLOWS, transitions=flow_entity_api.TRANSITIONS, render_job=to_job_record, shares_jobs=True),
    install_language(PLAYBOOKS, transitions=playbooks.TRANSITIONS, render_job=to_job_record, shares_jobs=True),
)


def list_builtin_models() -> BuiltinModels:
    """The built-in models of all languages."""
    return BuiltinModels(model for language in LANGUAGES for model in language.models)


def list_builtin_transitions() -> dict[ModelId, BuiltinTransition]:
    """What transitions do that clients may fire, by model."""
    return {model: fire for language in LANGUAGES for model, fire in language.transitions.items()}


def host_languages(runtime: Runtime) -> None:
    """Let a service run the instances of all languages. Its built-in models are those that it was made with."""
    runtime.extensions.add(ProcessHosts(runtime.clock))
    for language in LANGUAGES:
        language.host(runtime)
