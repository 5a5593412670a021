//! Authentication of clients by a token.

use std::fmt;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use super::server::CallMark;
use pairloom_base::error::{Error, Result};

/// Base64 with or without padding: clients write both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Header of requests with the token.
const AUTHORIZATION: &str = "authorization";

/// Fewest characters of a token: shorter ones can be guessed.
const MIN_CHARACTERS: usize = 16;

/// Token that clients send with every request. Its text is never printed.
#[derive(Clone)]
pub struct AccessToken {
    /// Header that a client with this token sends.
    header: MetadataValue<Ascii>,
    /// Digest of the token. Digests are compared in constant time.
    digest: blake3::Hash,
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

impl AccessToken {
    /// Token of a text, without the white space around it.
    ///
    /// # Errors
    /// The text is shorter than 16 characters, or has characters that a header cannot hold.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        let length = text.chars().count();
        if length < MIN_CHARACTERS {
            return Err(Error::usage(format!("the token has {length} characters, expected at least {MIN_CHARACTERS}"))
                .hint("`openssl rand -hex 32` makes one"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::usage(
                "the token has white space or characters other than those of ASCII, expected none",
            ));
        }
        let header = MetadataValue::try_from(format!("Bearer {text}"));
        let header = header.map_err(|error| Error::usage(format!("the token is no value of a header: {error}")))?;
        Ok(Self { header, digest: blake3::hash(text.as_bytes()) })
    }

    /// Header with the token, for the answer to a handshake.
    pub(super) fn header(&self) -> MetadataValue<Ascii> {
        self.header.clone()
    }

    /// True if the value of a header has the token: `Bearer TOKEN`, or `Basic` with the token as the password of any
    /// user.
    fn is_in(&self, header: &str) -> bool {
        let sent = match header.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim().as_bytes().to_vec(),
            Some((scheme, user_and_password)) if scheme.eq_ignore_ascii_case("basic") => {
                let Ok(decoded) = BASE64.decode(user_and_password.trim()) else { return false };
                let Some(colon) = decoded.iter().position(|&byte| byte == b':') else { return false };
                decoded[colon + 1..].to_vec()
            }
            _ => return false,
        };
        blake3::hash(&sent) == self.digest
    }
}

/// Refuses requests without the token, if the server has one.
#[derive(Debug, Clone)]
pub(super) struct Authentication(pub Option<AccessToken>);

impl Interceptor for Authentication {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(token) = &self.0 else { return Ok(allowed(request)) };
        match request.metadata().get(AUTHORIZATION) {
            None => Err(Status::unauthenticated(
                "the token is missing, expected the header `authorization: Bearer TOKEN`, or the token as the password",
            )),
            Some(header) if header.to_str().is_ok_and(|header| token.is_in(header)) => Ok(allowed(request)),
            Some(_) => Err(Status::unauthenticated("the token is wrong")),
        }
    }
}

fn allowed(request: Request<()>) -> Request<()> {
    CallMark::set_for(&request);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_taken_from_both_schemes() {
        let token = AccessToken::new(" 0123456789abcdef\n").unwrap();
        // base64 of `anyone:0123456789abcdef`, with and without padding, of users of other lengths, and of the same with
        // another last letter.
        for right in [
            "Bearer 0123456789abcdef",
            "bearer 0123456789abcdef",
            "Basic YW55b25lOjAxMjM0NTY3ODlhYmNkZWY=",
            "Basic YW55b25lOjAxMjM0NTY3ODlhYmNkZWY",
            "Basic eDowMTIzNDU2Nzg5YWJjZGVm",
            "Basic eHk6MDEyMzQ1Njc4OWFiY2RlZg",
            "Basic eHk6MDEyMzQ1Njc4OWFiY2RlZg==",
        ] {
            assert!(token.is_in(right), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer 0123456789abcdeF",
            "Basic YW55b25lOjAxMjM0NTY3ODlhYmNkZWc=",
            "Basic !",
            "Basic YQ==",
        ] {
            assert!(!token.is_in(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "AccessToken(…)");
    }

    #[test]
    fn tokens_that_can_be_guessed_or_sent_by_no_header_are_refused() {
        for (text, message) in [
            ("0123456789abcde", "the token has 15 characters, expected at least 16"),
            ("0123456789 abcdef", "the token has white space or characters other than those of ASCII, expected none"),
            ("0123456789äbcdef", "the token has white space or characters other than those of ASCII, expected none"),
        ] {
            assert_eq!(AccessToken::new(text).unwrap_err().to_string(), message);
        }
    }
}
