"""Beam's job service in Python, with two workers in a job instead of one; counts what each of them does.

    python two_worker_job_service.py BUNDLES_FILE --port_file FILE

Adds a line to BUNDLES_FILE for each bundle that a worker was given: the job, and the worker.
"""

import logging
import sys

from apache_beam.runners.portability import local_job_service, local_job_service_main
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers

BUNDLES_FILE = sys.argv[1]


class TwoWorkerRunner(fn_runner.FnApiRunner):
    """Beam's own has two workers only where it is not behind a job service."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self._num_workers = 2


class CountingConnection(worker_handlers.ControlConnection):
    """The connection to one worker of one job."""

    def push(self, req):
        if isinstance(req, worker_handlers.beam_fn_api_pb2.InstructionRequest) and req.HasField("process_bundle"):
            with open(BUNDLES_FILE, "a") as file:
                file.write(f"{id(self)}\n")
        return super().push(req)


local_job_service.fn_runner.FnApiRunner = TwoWorkerRunner
worker_handlers.ControlConnection = CountingConnection
logging.basicConfig(level=logging.INFO)
local_job_service_main.run([local_job_service_main.__file__, *sys.argv[2:]])
