"""Stands for Weights & Biases' package (fake_service)."""

import fake_service


class Settings:
    """Takes what it is told."""

    def __init__(self, **settings):
        self.settings = settings


class Run:
    """One run."""

    def __init__(self, name):
        self.id = name

    def log(self, values, step):
        """One record."""
        fake_service.note("log", service="wandb", run=self.id, step=step, values=values)

    def finish(self, exit_code):
        """The end."""
        fake_service.note("finish", service="wandb", run=self.id, ending=exit_code)


def init(*, project, id, name, dir, mode, config, settings):  # noqa: A002
    """A new run, or one that goes on."""
    fake_service.note("init", service="wandb", run=id, project=project, name=name, dir=dir, mode=mode, config=config)
    return Run(id)
