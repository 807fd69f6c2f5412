//! [`Tokens`]: the tokens that allow reading and writing.

use std::{
    fs,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use constant_time_eq::constant_time_eq;

use crate::failure::{Failure, Result};

/// Shorter tokens could be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// The longest file of a token.
const TOKEN_BYTES_MAX: u64 = 4096;
/// How many random bytes a generated token has.
const RANDOM_BYTES: usize = 32;
/// How long the link that opens the viewer can be followed, once.
const LINK_LIFE: Duration = Duration::from_secs(120);

/// What a caller may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rights {
    /// Only what needs no rights.
    None,
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// The rights of a caller, and how it has proved them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shown {
    pub(super) rights: Rights,
    /// By a cookie, which a browser sends by itself, not by a token that the caller has.
    pub(super) by_cookie: bool,
}

/// The tokens that allow reading and writing.
#[derive(Debug)]
pub(crate) struct Tokens {
    read: Option<Secret>,
    write: Option<Secret>,
    browsers: Mutex<Browsers>,
}

/// The browser that was authorized by a link.
#[derive(Debug, Default)]
struct Browsers {
    /// The link that wasn't followed yet, and when it expires.
    link: Option<(Secret, Instant)>,
    /// The only cookie: that of the browser that followed the link.
    cookie: Option<Secret>,
}

/// A text that is never printed.
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Compares in constant time, so that the time doesn't reveal how much of it is right.
    fn is(&self, given: &str) -> bool {
        constant_time_eq(self.0.as_bytes(), given.as_bytes())
    }
}

/// A fresh random token, valid in URLs and headers.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::other(format!("the system gives no random bytes: {error}")))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// The token from a file or an environment variable; the file takes precedence.
pub(crate) fn given(file: Option<&Path>, variable: &str) -> Result<Option<String>> {
    if let Some(path) = file {
        let what = path.display();
        let about = fs::metadata(path).map_err(|error| Failure::io(&error, &what))?;
        if about.len() > TOKEN_BYTES_MAX {
            let message = format!("{what} has {} bytes: that is no token", about.len());
            return Err(Failure::usage(message));
        }
        let text = fs::read_to_string(path).map_err(|error| Failure::io(&error, &what))?;
        return checked(text.trim(), what).map(Some);
    }
    match std::env::var(variable) {
        Ok(text) => checked(text.trim(), variable).map(Some),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::usage(format!("{variable}: {error}"))),
    }
}

fn checked(token: &str, from: impl std::fmt::Display) -> Result<String> {
    if token.len() < TOKEN_BYTES_MIN {
        return Err(Failure::usage(format!(
            "the token of {from} has {} characters, but needs {TOKEN_BYTES_MIN} so that nobody guesses it; make one with `openssl rand -hex 32`",
            token.len()
        )));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage(format!(
            "the token of {from} has characters that can't stand in a header; letters and digits can"
        )));
    }
    Ok(token.to_owned())
}

impl Tokens {
    /// Rights by these tokens; without any, everybody may read, and nobody may write.
    pub(crate) fn new(read: Option<String>, write: Option<String>) -> Self {
        Self {
            read: read.map(Secret),
            write: write.map(Secret),
            browsers: Mutex::default(),
        }
    }

    /// Whether reading needs a token.
    pub(crate) fn are_needed(&self) -> bool {
        self.read.is_some() || self.write.is_some()
    }

    /// Whether writing is possible.
    pub(super) fn can_write(&self) -> bool {
        self.write.is_some()
    }

    fn browsers(&self) -> MutexGuard<'_, Browsers> {
        self.browsers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of a link that authorizes one browser, once, and expires soon.
    pub(crate) fn new_link(&self) -> Result<String> {
        let code = random()?;
        let until = Instant::now() + LINK_LIFE;
        self.browsers().link = Some((Secret(code.clone()), until));
        Ok(code)
    }

    /// The cookie for the browser that has followed the link; `None` if the link was followed before, or has expired.
    pub(super) fn follow_link(&self, code: &str) -> Result<Option<String>> {
        let mut browsers = self.browsers();
        let is_it =
            |(link, until): &mut (Secret, Instant)| link.is(code) && Instant::now() < *until;
        if browsers.link.take_if(is_it).is_none() {
            return Ok(None);
        }
        let cookie = random()?;
        browsers.cookie = Some(Secret(cookie.clone()));
        Ok(Some(cookie))
    }

    /// The rights proved by a request's headers; `None` for a wrong token or cookie.
    pub(super) fn shown(&self, headers: &HeaderMap, cookie_name: &str) -> Option<Shown> {
        let mut given = headers.get_all(header::AUTHORIZATION).into_iter();
        // Where no token is needed, the header is somebody else's, such as that of a proxy that lets people in by passwords.
        if let Some(only) = given.next().filter(|_| self.are_needed()) {
            // With several headers, a proxy might have checked another one.
            let only = Some(only).filter(|_| given.next().is_none());
            let token = only?.to_str().ok().and_then(bearer)?;
            // Both are always compared, for constant time.
            let writes = self.write.as_ref().is_some_and(|own| own.is(token));
            let reads = self.read.as_ref().is_some_and(|own| own.is(token));
            let rights = match (writes, reads) {
                (true, _) => Rights::Write,
                (false, true) => Rights::Read,
                (false, false) => return None,
            };
            return Some(Shown {
                rights,
                by_cookie: false,
            });
        }
        let is_let_in = {
            let browsers = self.browsers();
            let own = browsers.cookie.as_ref();
            own.is_some_and(|own| cookies(headers, cookie_name).any(|given| own.is(given)))
        };
        let rights = match (is_let_in, self.are_needed()) {
            (true, _) if self.can_write() => Rights::Write,
            (true, _) | (false, false) => Rights::Read,
            (false, true) => Rights::None,
        };
        Some(Shown {
            rights,
            by_cookie: is_let_in,
        })
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_matches(' '))
}

fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(header::COOKIE)
        .into_iter()
        .filter_map(|header| header.to_str().ok())
        .flat_map(|header| header.split(';'))
        .filter_map(move |cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = "0123456789abcdef";
    const WRITE: &str = "fedcba9876543210";

    fn shown(tokens: &Tokens, name: header::HeaderName, value: &str) -> Option<Rights> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        tokens.shown(&headers, "runlog-1").map(|shown| shown.rights)
    }

    #[test]
    fn each_token_gives_its_rights_and_no_other_does() {
        let tokens = Tokens::new(Some(READ.into()), Some(WRITE.into()));
        let bearer =
            |token: &str| shown(&tokens, header::AUTHORIZATION, &format!("Bearer {token}"));
        assert_eq!(bearer(READ), Some(Rights::Read));
        assert_eq!(bearer(WRITE), Some(Rights::Write));
        for wrong in [
            "",
            "0123456789abcde",
            "0123456789abcdef0",
            "0123456789abcdeF",
        ] {
            assert_eq!(bearer(wrong), None, "{wrong}");
        }
        assert_eq!(
            shown(&tokens, header::AUTHORIZATION, &format!("Basic {READ}")),
            None
        );
        let nothing = tokens.shown(&HeaderMap::new(), "runlog-1");
        assert_eq!(nothing.map(|shown| shown.rights), Some(Rights::None));
        let open = Tokens::new(None, None);
        let nothing = open.shown(&HeaderMap::new(), "runlog-1");
        assert_eq!(nothing.map(|shown| shown.rights), Some(Rights::Read));
        let of_a_proxy = shown(&open, header::AUTHORIZATION, "Basic dTpw");
        assert_eq!(of_a_proxy, Some(Rights::Read));
    }

    #[test]
    fn a_link_lets_one_browser_in_once() {
        let tokens = Tokens::new(Some(READ.into()), None);
        let code = tokens.new_link().unwrap();
        assert_eq!(tokens.follow_link("x").unwrap(), None);
        let cookie = tokens.follow_link(&code).unwrap().unwrap();
        assert_eq!(tokens.follow_link(&code).unwrap(), None, "it was followed");
        let sent = format!("a=b; runlog-1={cookie}");
        assert_eq!(shown(&tokens, header::COOKIE, &sent), Some(Rights::Read));
        let of_another = format!("runlog-12={cookie}");
        assert_eq!(
            shown(&tokens, header::COOKIE, &of_another),
            Some(Rights::None)
        );
        let token = format!("runlog-1={READ}");
        assert_eq!(shown(&tokens, header::COOKIE, &token), Some(Rights::None));
    }

    #[test]
    fn tokens_that_can_be_guessed_or_sent_nowhere_are_refused() {
        assert!(checked("short", "x").is_err());
        assert!(checked("0123456789 abcdef", "x").is_err());
        assert!(checked(READ, "x").is_ok());
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
