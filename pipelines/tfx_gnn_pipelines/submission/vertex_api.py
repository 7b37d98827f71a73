"""Requests to Vertex AI through Google's client of its API, with credentials, and failures that say what to do."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tfx_gnn_pipelines.submission.connection import ConnectionOptions, Secret
from tfx_gnn_pipelines.submission.failures import (
    Remedies,
    ServiceError,
    is_html,
    login_page_error,
    status_error,
    transport_error,
)
from tfx_gnn_pipelines.submission.retries import Retries
from tfx_gnn_pipelines.submission.vertex_names import endpoint_address

_Result = TypeVar("_Result")
TIMEOUT = 120.0
"""Seconds that a request may take."""


class VertexApi:
    """The API of Vertex AI, as one user reaches it.

    Args:
        options: where the service is, and perhaps a file with a token.
        retries: repeats requests.
        remedies: what the user can do about a failure.
        address_flag: option that names the service's address, for failures to reach it.
        credentials: who asks; None for the token of `options`, or Google's application default credentials.
    """

    def __init__(
        self,
        options: ConnectionOptions,
        retries: Retries,
        remedies: Remedies,
        *,
        address_flag: str = "--region",
        credentials: Any = None,
    ) -> None:
        self._options = options
        self._retries = retries
        self._remedies = remedies
        self._address_remedies = dataclasses.replace(remedies, flag=address_flag)
        self._secret = Secret("--token-file", options.token_file) if options.token_file else None
        self._clients: dict[tuple[str, str], Any] = {}
        self._credentials = credentials

    def client(self, kind: str, name: str) -> Any:
        """Returns a client for the region in a resource's name."""
        aiplatform = client_library()
        region = name.split("/")[3]
        if (kind, region) not in self._clients:
            if self._credentials is None:
                self._credentials = self._make_credentials()
            from google.api_core.client_options import ClientOptions

            endpoint = self._options.endpoint or f"https://{region}-aiplatform.googleapis.com"
            client = getattr(aiplatform, kind)(
                credentials=self._credentials, transport="rest", client_options=ClientOptions(api_endpoint=endpoint)
            )
            # A creation that is redirected would become a list of what is there, which reads as an empty message.
            client.transport._session.max_redirects = 0  # noqa: SLF001 - it has no option for this.
            self._clients[kind, region] = client
        return self._clients[kind, region]

    def repeat(self, request: Callable[[], _Result], place: str) -> _Result:
        """Makes a request that may be repeated; `place` is its method and the resource."""
        return self._retries.repeat(lambda: self.call(request, place))

    def call(self, request: Callable[[], _Result], place: str) -> _Result:
        """Makes one request; `place` is its method and the resource."""
        import google.auth.exceptions
        import requests
        from google.api_core import exceptions
        from google.protobuf import json_format

        method, _, name = place.partition(" ")
        place = f"{method} {endpoint_address(self._options, name)}/v1/{name}"
        remedies = self._remedies
        try:
            return request()
        except exceptions.GoogleAPICallError as error:
            answer = error.response
            raise status_error(
                int(error.code or 0),
                answer.text if answer is not None else str(error.message),
                dict(answer.headers) if answer is not None else {},
                place=place,
                remedies=remedies,
                hide=self._hide,
            ) from None
        except requests.exceptions.TooManyRedirects as error:
            redirection: Any = error.response
            raise status_error(
                redirection.status_code,
                redirection.text,
                dict(redirection.headers),
                place=place,
                remedies=remedies,
                hide=self._hide,
            ) from None
        except requests.exceptions.RequestException as error:
            raise transport_error(error, place=place, remedies=self._address_remedies, hide=self._hide) from error
        except google.auth.exceptions.TransportError as error:
            raise transport_error(error, place="Google's login", remedies=remedies, hide=self._hide) from error
        except google.auth.exceptions.GoogleAuthError as error:
            raise self._no_credentials(error) from error
        except json_format.ParseError as error:
            text = " ".join(str(error).split())
            if is_html(text):
                raise login_page_error(200, place=place, remedies=remedies) from error
            raise ServiceError(
                f"`--endpoint` must be the address of Vertex AI; got an answer that is no message from {place}: a page "
                f"or another server's. {self._hide(text)[:100]} Correct the address, or log in to the proxy.",
                reason="the answer was no message",
            ) from error

    def _make_credentials(self) -> Any:
        import google.auth.exceptions

        if self._secret is not None:
            from google.oauth2 import credentials

            secret = self._secret

            def renewed(*_: Any, **__: Any) -> tuple[str, dt.datetime]:
                # Read again after a minute, because such files are rewritten when a token ends.
                until = dt.datetime.now(dt.timezone.utc) + dt.timedelta(minutes=5)
                return secret.read(), until.replace(tzinfo=None)

            make: Any = credentials.Credentials
            return make(token=None, refresh_handler=renewed)
        try:
            found, _ = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
        except google.auth.exceptions.GoogleAuthError as error:
            raise self._no_credentials(error) from error
        return found

    def _no_credentials(self, error: Exception) -> ServiceError:
        return ServiceError(
            f"`{self._remedies.flag}` must be used with valid credentials; got {self._hide(one_line(error))} "
            f"{self._remedies.login}",
            reason="there are no valid credentials",
            status=401,
        )

    def _hide(self, text: str) -> str:
        token = getattr(self._credentials, "token", None)
        text = text.replace(token, "***") if token else text
        return self._secret.hide(text) if self._secret is not None else text


def client_library() -> Any:
    """Imports the client of the API.

    Raises:
        ModuleNotFoundError: if it is not installed; the message says how to install it.
    """
    try:
        with warnings.catch_warnings():
            # About versions of Python, which the user did not ask for here.
            warnings.simplefilter("ignore", FutureWarning)
            from google.cloud import aiplatform_v1
    except (ImportError, ModuleNotFoundError) as error:
        raise ModuleNotFoundError(
            "`tfx-gnn submit` must have 'google.cloud.aiplatform' installed for Vertex AI; got none. Install "
            "tfx-gnn with its extra 'vertex'.",
            name="google.cloud.aiplatform",
        ) from error
    return aiplatform_v1


def check_message(kind: str, body: Mapping[str, Any]) -> None:
    """Reads a message as the client will, so that a wrong field is found before anything is sent."""
    from google.protobuf import json_format

    try:
        getattr(client_library(), kind).from_json(json.dumps(body))
    except json_format.ParseError as error:
        raise ValueError(
            f"`file` must make a valid {kind} of Vertex AI; got a mistake in it: {one_line(error)} Compile it anew."
        ) from error


def check_name(message: Any) -> None:
    """Refuses an answer of another server: the client reads any object as a message without fields."""
    if not message.name:
        raise ServiceError(
            "`--endpoint` must be the address of Vertex AI; got an answer without a name: another server's. Correct "
            "the address, and look at the list of runs before you submit again.",
            reason="the answer was no message of Vertex AI",
        )


def one_line(error: BaseException) -> str:
    """Returns the text of an error as one sentence."""
    text = " ".join(str(error).split())
    return text if text.endswith(".") else f"{text}."
