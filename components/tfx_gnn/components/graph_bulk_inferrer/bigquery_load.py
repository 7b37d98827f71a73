"""Loads tables of answers into BigQuery, one job for each split."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tfx_gnn.components.graph_bulk_inferrer.table_writers import SUFFIXES
from tfx_gnn.records.examples_folder import split_dir

if TYPE_CHECKING:
    from google.api_core.exceptions import GoogleAPICallError
    from google.cloud import bigquery

SPLIT_FIELD = "{SPLIT}"
"""Stands for the name of the split in the name of a table."""

_STORE = "gs://"
_QUOTA = ("quotaExceeded", "rateLimitExceeded")  # Answers with the status of missing permission.


class BigQueryLoad:
    """Loads the Parquet files of a folder into tables, which have its rows and no others afterwards.

    A load job changes a table at its end, as a whole: readers see the rows of before or those of after, and a job that
    is repeated leaves the same rows. Source: https://cloud.google.com/bigquery/docs/loading-data-cloud-storage-parquet

    Attributes:
        tables: by split, the table that gets its rows.
    """

    def __init__(self, table: str, splits: set[str], inference_dir: str) -> None:
        """Checks, before anything is inferred, whether the answers can be loaded.

        Args:
            table: "project.dataset.table" or "dataset.table"; `{SPLIT}` in it stands for the split.
            splits: the splits that have tables.
            inference_dir: where the files will be.

        Raises:
            ValueError: if BigQuery cannot read the files there, several splits would go to one table, or the dataset
                cannot be read with the credentials at hand.
            ModuleNotFoundError: if the client is not installed.
            ConnectionError: if the service does not answer.
        """
        if not inference_dir.startswith(_STORE):
            raise ValueError(
                f"`inference_dir` must be on Cloud Storage for `bigquery_table`; got {inference_dir!r}. BigQuery loads "
                f"files from there alone: name a folder that begins with {_STORE!r}."
            )
        if len(splits) > 1 and SPLIT_FIELD not in table:
            raise ValueError(
                f"`bigquery_table` must hold {SPLIT_FIELD} if there are several splits; got {table!r} for "
                f"{sorted(splits)}. Add it, or name one split in `splits`."
            )
        self.tables = {split: table.replace(SPLIT_FIELD, split) for split in sorted(splits)}
        self._client = _client(table)
        dataset = table.rpartition(".")[0]
        self._call(functools.partial(self._client.get_dataset, dataset))

    def load(self, folder: str, num_rows: Mapping[str, int]) -> None:
        """Loads the files of each split.

        Args:
            folder: the folder with the tables by split, on Cloud Storage.
            num_rows: by split, the rows in the files.

        Raises:
            ValueError: if a split has no rows, and then no table is changed; or if BigQuery refuses the files or takes
                another number of rows.
            ConnectionError: if the service does not answer.
        """
        from google.cloud import bigquery

        options = bigquery.ParquetOptions()
        options.enable_list_inference = True
        config = bigquery.LoadJobConfig(
            source_format=bigquery.SourceFormat.PARQUET,
            write_disposition=bigquery.WriteDisposition.WRITE_TRUNCATE,
            parquet_options=options,
            # "task/score", of a model of several tasks, becomes "task_score".
            column_name_character_map="V2",
        )
        for split, table in self.tables.items():
            if not num_rows.get(split):
                raise ValueError(
                    f"`bigquery_table` must get rows; got none for split {split!r}, and {table!r} stays as it is. Look "
                    "at `inference.json` and `dead_letters`, or leave the split out."
                )
        for split, table in self.tables.items():
            files = os.path.join(split_dir(folder, split), f"*{SUFFIXES['parquet']}")
            job = self._call(functools.partial(self._client.load_table_from_uri, files, table, job_config=config))
            self._call(job.result)
            if job.output_rows != num_rows[split]:
                raise ValueError(
                    f"`bigquery_table` must have the rows of the files; got {job.output_rows} of {num_rows[split]} in "
                    f"{table!r} by job {job.job_id!r}. Something else writes files into {folder!r}: run it again."
                )

    def _call(self, request: Callable[[], Any]) -> Any:
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError, TransportError

        tables = sorted(self.tables.values())
        try:
            return request()
        except exceptions.RetryError as error:
            raise ConnectionError(f"BigQuery must answer; got {error.message!r} for {tables}. Try again.") from error
        except exceptions.GoogleAPICallError as error:
            raise _explained(error, tables) from error
        except (TransportError, OSError) as error:
            # OSError: of requests, where the client does not try again.
            raise ConnectionError(f"BigQuery must answer; got {str(error)!r} for {tables}. Try again.") from error
        except GoogleAuthError as error:
            raise ValueError(
                f"`bigquery_table` must be a table whose credentials are valid; got {str(error)!r} for {tables}. Run "
                "`gcloud auth application-default login`."
            ) from error


def _explained(error: GoogleAPICallError, tables: list[str]) -> Exception:
    """Returns the error that says what to do about an answer of the service."""
    from google.api_core import exceptions

    if isinstance(error, (exceptions.TooManyRequests, exceptions.ServerError)) or any(
        found.get("reason") in _QUOTA for found in error.errors
    ):
        return ConnectionError(f"BigQuery must answer; got {error.message!r} for {tables}. Try again.")
    if isinstance(error, (exceptions.Unauthorized, exceptions.Forbidden, exceptions.NotFound)):
        return ValueError(
            f"`bigquery_table` must be a table that can be written with these credentials; got the answer "
            f"{error.message!r} for {tables}. Create the dataset, or grant `bigquery.dataEditor` on it and "
            "`bigquery.jobUser` on the project."
        )
    if isinstance(error, exceptions.ClientError):
        return ValueError(
            f"`bigquery_table` must be a table that takes the rows; got the answer {error.message!r} for {tables}. "
            "Correct what it names, or choose another table."
        )
    # A job that somebody cancels has an error, but no status of an error.
    return ConnectionError(f"BigQuery must finish the load; got the answer {error.message!r} for {tables}. Try again.")


def _client(table: str) -> bigquery.Client:
    try:
        from google.auth.exceptions import DefaultCredentialsError
        from google.cloud import bigquery
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"`bigquery_table` needs the package google-cloud-bigquery; got no module {error.name!r}. "
            "Install tfx-gnn with its extra 'bigquery'."
        ) from error
    names = table.rsplit(".", 2)
    try:
        return bigquery.Client(project=names[0] if len(names) == 3 else None)
    except (DefaultCredentialsError, OSError) as error:
        # OSError: there are credentials, but they name no project.
        raise ValueError(
            f"`bigquery_table` must be a table of a project whose credentials are here; got {error} for {table!r}. Run "
            "`gcloud auth application-default login`, or name the project in the table."
        ) from error
