//! The viewer: its files, if the build has them, and the link that authorizes a browser.

#[cfg(feature = "viewer")]
use axum::body::Body;
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    app::App,
    problem::{Answer, Problem},
    query::Query,
};
#[cfg(feature = "viewer")]
use crate::viewer_files::Files;

/// The content security policy of the viewer's pages: they may run their own scripts and WebAssembly, and send requests
/// to this server. Recorded content can't run as a script, and nothing is sent elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; \
                      style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page of a build without the viewer.
#[cfg(not(feature = "viewer"))]
const NO_VIEWER: &str = "<!doctype html>
<html lang=en>
<meta charset=utf-8>
<title>Runlog</title>
<h1>Runlog</h1>
<p>This server answers its <a href=/openapi.json>API</a>. It was built without the viewer; in a clone,
<pre>cargo xtask viewer
cargo install --locked --path cli --bin runlog --features viewer</pre>
<p>builds it with the viewer.
";

/// The page that leads an authorized browser on. It isn't a redirect: after a redirect that began at a link of another
/// page, the browser wouldn't send a cookie with `SameSite=Strict`.
const LET_IN: &str = "<!doctype html><meta charset=utf-8><title>Runlog</title><meta http-equiv=refresh content=\"0;url=/\"><a href=/>On to the viewer</a>\n";

/// The page for whoever follows the link later, or elsewhere.
const FOLLOWED: &str = "<!doctype html>
<html lang=en>
<meta charset=utf-8>
<title>Runlog</title>
<h1>This link was followed before, or is too old</h1>
<p>It lets one browser in, once, soon after the server began. If this is that browser, go <a href=/>on to the viewer</a>;
if not, end <code>runlog serve --open</code> and start it again.
";

/// The link that lets a browser in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Link {
    /// The code, good once.
    code: String,
}

/// Sets the cookie of a browser that has followed the link.
pub(super) async fn open(State(app): State<App>, request: Request) -> Answer<Response> {
    let link: Link = Query::of::<Link>().read(request.uri().query())?;
    // What looks for what is behind a link, before somebody follows it, doesn't use it up.
    if request.method() == Method::HEAD {
        return Ok(page(LET_IN));
    }
    let cookie = app.tokens().follow_link(&link.code)?;
    let Some(cookie) = cookie else {
        // A tab that is restored, or the link pressed again, in the browser that was let in.
        let shown = app.tokens().shown(request.headers(), app.cookie_name());
        return Ok(match shown {
            Some(shown) if shown.by_cookie => page(LET_IN),
            _ => (StatusCode::FORBIDDEN, page(FOLLOWED)).into_response(),
        });
    };
    let name = app.cookie_name();
    let cookie = format!("{name}={cookie}; Path=/; HttpOnly; SameSite=Strict");
    let cookie = HeaderValue::from_str(&cookie)
        .map_err(|error| Problem::internal(format!("the cookie is no header: {error}")))?;
    let mut response = page(LET_IN);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

fn page(html: &'static str) -> Response {
    let html_type = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (html_type, html).into_response()
}

/// A file of the viewer; `None` if there is none with that path.
#[cfg(feature = "viewer")]
pub(super) fn file(path: &str, headers: &HeaderMap) -> Option<Response> {
    let name = match path {
        "/" => "index.html",
        _ => path.strip_prefix('/')?,
    };
    let file = Files::get(name)?;
    let tag = file
        .metadata
        .sha256_hash()
        .map(|byte| format!("{byte:02x}"));
    let tag = format!("\"{}\"", tag.concat());
    let kind = match file.metadata.mimetype() {
        kind if kind.starts_with("text/") => format!("{kind}; charset=utf-8"),
        kind => kind.to_owned(),
    };
    // The names of these files contain a hash of their content.
    let kept = if name.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let is_known = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|own| own == tag.as_str());
    let (status, body) = if is_known {
        (StatusCode::NOT_MODIFIED, Body::empty())
    } else {
        (StatusCode::OK, Body::from(file.data))
    };
    let about = [
        (header::CONTENT_TYPE, kind),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, kept.to_owned()),
    ];
    Some(of_the_viewer((status, about, body).into_response()))
}

/// The page in place of the viewer, in a build without it.
#[cfg(not(feature = "viewer"))]
pub(super) fn file(path: &str, _: &HeaderMap) -> Option<Response> {
    (path == "/").then(|| of_the_viewer(page(NO_VIEWER)))
}

fn of_the_viewer(mut response: Response) -> Response {
    let own = response.headers_mut();
    own.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    // Isolates the page from other origins; threads of WebAssembly require that too.
    for (name, value) in [
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-embedder-policy", "require-corp"),
    ] {
        own.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    response
}
