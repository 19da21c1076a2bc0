"""Why a page cannot be had."""

from pattern_acp.domain.errors import WebError


class AddressRefusedError(WebError):
    """The URL is none that is fetched: another scheme, a password in it, a private address."""

    failure_code = "web.address-refused"


class PageFailedError(WebError):
    """The server did not give the page: no answer in time, a broken connection, an unreadable body."""

    failure_code = "web.page-failed"
