"""The client."""

import types

import fake_service


class MlflowClient:
    """Tells fake_service."""

    def __init__(self, tracking_uri):
        self.uri = tracking_uri

    def get_experiment_by_name(self, name):
        """None: there is none yet."""
        made = [call for call in fake_service.calls() if call["call"] == "create_experiment" and call["name"] == name]
        return types.SimpleNamespace(experiment_id="7") if made else None

    def create_experiment(self, name):
        """Its number."""
        fake_service.note("create_experiment", service="mlflow", name=name)
        return "7"

    def create_run(self, experiment, run_name):
        """Named by how many there are."""
        run = f"run{sum(call['call'] == 'create_run' for call in fake_service.calls())}"
        fake_service.note("create_run", service="mlflow", run=run, name=run_name, uri=self.uri, experiment=experiment)
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run))

    def update_run(self, run, status):
        """A run goes on."""
        fake_service.note("update_run", service="mlflow", run=run, status=status)

    def log_param(self, run, name, value):
        """One parameter."""
        fake_service.note("log_param", service="mlflow", run=run, name=name, value=value)

    def log_batch(self, run, metrics):
        """One record."""
        steps = {metric.step for metric in metrics}
        assert len(steps) == 1, metrics
        fake_service.note("log", service="mlflow", run=run, step=steps.pop(),
                          values={metric.key: metric.value for metric in metrics})

    def set_terminated(self, run, status):
        """The end."""
        fake_service.note("finish", service="mlflow", run=run, ending=status)
