"""Use cases of playbooks. What is there so far: pipelines that the service runs itself."""
