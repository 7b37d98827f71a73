"""Submits compiled pipelines to Kubeflow Pipelines and Vertex AI, and watches, schedules and cancels their runs.

`runs` says what both services have in common; `kubeflow` and `vertex` speak to one of them each, through kfp's API
client and Google's client of Vertex AI. `connection` finds out where a service is and who speaks to it, `failures`
turns what can go wrong into one line, and `retries` says what is tried again.
"""
