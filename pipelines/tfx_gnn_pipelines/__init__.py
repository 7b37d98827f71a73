"""Runnable pipelines: tasks, their assembly from components, and the runners."""
