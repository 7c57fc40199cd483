"""How examples are drawn: the same in every run, so that a change is judged by what it changes, and without a limit of
time, which would say something about the machine. A run that has said so before is left alone.
"""

import hypothesis

if hypothesis.settings.get_current_profile_name() == "default":
    hypothesis.settings.register_profile("grpc-h2", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("grpc-h2")
