"""Stands for MLflow's package (fake_service)."""
