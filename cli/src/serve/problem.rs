//! [`Problem`]: why a request was refused or failed, in the format of RFC 9457.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use runlog::{Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::{Exit, Failure};

/// The result of a request's parts.
pub(super) type Answer<T> = Result<T, Problem>;

/// Why a request was refused or failed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: `code` says more.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What the status means.
    title: &'static str,
    /// The HTTP status.
    #[serde(serialize_with = "number")]
    #[schemars(with = "u16")]
    status: StatusCode,
    /// What a program may decide by: as the kind of an error on the command line and in JavaScript.
    code: &'static str,
    /// What was wrong, where, and what to do.
    detail: String,
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            code,
            detail: detail.into(),
        }
    }

    /// The request is invalid.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            ErrorKind::InvalidInput.name(),
            detail,
        )
    }

    /// The requested object doesn't exist.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, ErrorKind::NotFound.name(), detail)
    }

    /// The server itself failed.
    pub(super) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    /// Whether the requested data exists, but is damaged.
    pub(super) fn is_damage(&self) -> bool {
        self.code == ErrorKind::Damaged.name()
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = error.kind();
        let status = match kind {
            ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::AlreadyExists
            | ErrorKind::Ambiguous
            | ErrorKind::Conflict
            | ErrorKind::WrongStatus
            | ErrorKind::LimitReached => StatusCode::CONFLICT,
            ErrorKind::ReadOnly => StatusCode::FORBIDDEN,
            ErrorKind::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::Locked | ErrorKind::Poisoned | ErrorKind::Closed => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, kind.name(), error.to_string())
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let status = match failure.exit() {
            Exit::Usage => StatusCode::BAD_REQUEST,
            Exit::NotFound => StatusCode::NOT_FOUND,
            Exit::Conflict => StatusCode::CONFLICT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, failure.kind(), failure.message())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("texts and a number have a JSON form");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"runlog\"");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
