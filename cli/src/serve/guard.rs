//! Checks before any request is answered: its host, the page that sent it, and the caller's rights.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    app::App,
    problem::{Answer, Problem},
    tokens::Rights,
};

/// Headers for browsers in every response, unless it has set them itself.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-store"),
];

/// Refuses requests for other hosts and from other pages; adds the headers for browsers.
pub(super) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match check_host(&app, &request).and_then(|()| check_page(&request)) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in HEADERS {
        response
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Prevents DNS rebinding: a name that another site points at this machine would let that site's pages read responses
/// of this server. IP addresses can't be rebound.
fn check_host(app: &App, request: &Request) -> Answer<()> {
    let refused = |status, detail: String| Err(Problem::new(status, "wrong_host", detail));
    let mut named = request.headers().get_all(header::HOST).into_iter();
    let (Some(host), None) = (named.next(), named.next()) else {
        let detail = "a request names its host, once".to_owned();
        return refused(StatusCode::BAD_REQUEST, detail);
    };
    let Some(host) = authority(host) else {
        let detail = "the header `Host` is no name or address with a port".to_owned();
        return refused(StatusCode::BAD_REQUEST, detail);
    };
    // A server behind this one would use the host of an absolute URI instead of the header.
    let in_address = request.uri().authority();
    if in_address.is_some_and(|own| !own.as_str().eq_ignore_ascii_case(host.as_str())) {
        let detail = "the header `Host` and the address name different hosts".to_owned();
        return refused(StatusCode::BAD_REQUEST, detail);
    }
    let name = host.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_known = address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || app.hosts().iter().any(|own| own.eq_ignore_ascii_case(name));
    if is_known {
        return Ok(());
    }
    let detail = format!(
        "this server is not {name:?}; start it with `--allow-host {name}` where it is to be reached by that name"
    );
    refused(StatusCode::MISDIRECTED_REQUEST, detail)
}

/// The host of a header, unless it contains user information.
fn authority(value: &HeaderValue) -> Option<Authority> {
    let authority: Authority = value.to_str().ok()?.parse().ok()?;
    (!authority.as_str().contains('@') && !authority.host().is_empty()).then_some(authority)
}

/// Pages of other sites get nothing, not even the timing of an answer. Following a link to the viewer is allowed.
fn check_page(request: &Request) -> Answer<()> {
    let headers = request.headers();
    let refused = || {
        let detail = "pages of other sites get nothing from this server; a proxy before it has to pass on the header `Host` as the \
                      browser sent it";
        Err(Problem::new(StatusCode::FORBIDDEN, "other_site", detail))
    };
    let is_navigation = request.method() == Method::GET
        && text(headers, "sec-fetch-mode") == Some("navigate")
        && !is_api(request.uri().path());
    match text(headers, "sec-fetch-site") {
        None | Some("same-origin" | "none") => {}
        Some(_) if is_navigation => return Ok(()),
        Some(_) => return refused(),
    }
    if headers.contains_key(header::ORIGIN) && !is_own_page(headers) {
        return refused();
    }
    Ok(())
}

/// Whether the request was sent by a page of this server.
fn is_own_page(headers: &HeaderMap) -> bool {
    let origin = text(headers, "origin").and_then(|origin| origin.split_once("://"));
    let host = text(headers, "host");
    origin.is_some_and(|(_, of_page)| host.is_some_and(|own| own.eq_ignore_ascii_case(of_page)))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // A value that isn't text matches no known one.
    Some(headers.get(name)?.to_str().unwrap_or("?"))
}

/// Whether a path belongs to the API, which has no pages.
pub(super) fn is_api(path: &str) -> bool {
    ["/v1/", "/api/", "/openapi.json"]
        .iter()
        .any(|beginning| path.starts_with(beginning))
}

/// An error if the caller doesn't have these rights.
pub(super) fn check_rights(app: &App, headers: &HeaderMap, wanted: Rights) -> Answer<()> {
    let unknown = |detail: &str| {
        Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            detail,
        ))
    };
    let refused = |detail: &str| Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
    let Some(shown) = app.tokens().shown(headers, app.cookie_name()) else {
        let mut given = headers.get_all(header::AUTHORIZATION).into_iter();
        let is_bearer = given.all(|own| {
            let scheme = own.as_bytes().get(..7);
            scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "))
        });
        return unknown(if is_bearer {
            "the token is not one of this server's"
        } else {
            "the header `Authorization` has no token; give one: `Authorization: Bearer TOKEN`"
        });
    };
    if wanted == Rights::Write && !app.tokens().can_write() {
        return refused(
            "this server only reads; start it with `--write`, or with a token for writing",
        );
    }
    if shown.rights < wanted {
        return match shown.rights {
            Rights::None => unknown("give a token: `Authorization: Bearer TOKEN`"),
            _ => refused("this token only reads"),
        };
    }
    // Browsers send cookies automatically, so a write with a cookie must come from our own page.
    let is_ours = || text(headers, "sec-fetch-site") == Some("same-origin") || is_own_page(headers);
    if wanted == Rights::Write && shown.by_cookie && !is_ours() {
        return refused("a cookie writes only for pages of this server; give a token");
    }
    Ok(())
}
