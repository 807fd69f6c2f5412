//! The routes of the server.

use axum::{
    Router,
    http::{HeaderMap, Method, StatusCode, Uri},
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
    routing::get,
};

use super::{
    api, app::App, endpoint::Endpoint, files, guard, openapi, playback, problem::Problem, tail,
    viewer,
};

/// Every endpoint of the API.
pub(super) fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = api::endpoints();
    endpoints.extend(files::endpoints());
    endpoints.extend([tail::endpoint(), playback::endpoint()]);
    endpoints.push(openapi::endpoint(&endpoints));
    endpoints
}

/// The router of the whole server.
pub(super) fn router(app: App) -> Router {
    let router = endpoints()
        .into_iter()
        .fold(Router::new(), |router, endpoint| {
            router.route(endpoint.path, endpoint.route)
        });
    router
        .route("/open", get(viewer::open))
        .fallback(other)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(app.clone(), guard::check))
        .with_state(app)
}

/// Other paths: the viewer's files.
async fn other(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let reads = matches!(method, Method::GET | Method::HEAD);
    let file = reads.then(|| viewer::file(uri.path(), &headers)).flatten();
    file.unwrap_or_else(|| unknown(&uri).into_response())
}

fn unknown(uri: &Uri) -> Problem {
    let detail = format!(
        "there is nothing at {}; /openapi.json lists what there is",
        uri.path()
    );
    Problem::not_found(detail)
}

async fn not_allowed(method: Method, uri: Uri) -> Problem {
    let detail = format!(
        "{method} is not answered at {}; /openapi.json lists what is",
        uri.path()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail)
}
