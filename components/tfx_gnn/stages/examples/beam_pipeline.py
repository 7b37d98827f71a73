"""The Beam pipeline that a stage runs on."""

from __future__ import annotations

from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions


def make_pipeline(beam_args: Sequence[str] = ()) -> beam.Pipeline:
    """Makes an empty pipeline.

    Args:
        beam_args: flags as on Beam's command line. Without `--runner` the pipeline runs in this
            process; and unless a `--direct_running_mode` asks for more, it stays there whatever the
            version of Beam.

    Returns:
        Pipeline to be used in a `with` statement, which runs it and waits for it.
    """
    args = list(beam_args)
    named = {arg.partition("=")[0] for arg in args}
    if not named & {"--runner", "--direct_running_mode"}:
        # From Beam 2.68 the direct runner may hand over to a separate process, which takes seconds to start.
        args.append("--direct_running_mode=in_memory")
    if "--runner" not in named:
        args.append("--runner=DirectRunner")
    return beam.Pipeline(options=PipelineOptions(args))
