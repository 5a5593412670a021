//! URL of the scheduler of a cluster.

use std::str::FromStr;

use url::Url;

/// Port of a scheduler, if its URL names none.
const DEFAULT_PORT: u16 = 50050;

/// URL of a scheduler: `http://HOST:PORT`, or `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterUrl {
    /// Name or address of the machine.
    pub host: String,
    /// Port of the scheduler.
    pub port: u16,
}

impl FromStr for ClusterUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || format!("got `{text}`, wanted the URL of a scheduler: `http://HOST:PORT`");
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&whole).map_err(|_| wanted())?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none();
        match url.host_str() {
            Some(host) if url.scheme() == "http" && is_plain => {
                // `url` leaves out the default port of the scheme.
                let has_port = whole.trim_end_matches('/').ends_with(":80");
                let port = url.port().unwrap_or(if has_port { 80 } else { DEFAULT_PORT });
                Ok(Self { host: host.to_owned(), port })
            }
            _ => Err(wanted()),
        }
    }
}

impl std::fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_port() {
        let parsed = |text: &str| text.parse::<ClusterUrl>().map(|url| url.to_string());
        assert_eq!(parsed("http://head:50051"), Ok("http://head:50051".to_owned()));
        assert_eq!(parsed("head:80"), Ok("http://head:80".to_owned()));
        assert_eq!(parsed("http://[::1]:7/"), Ok("http://[::1]:7".to_owned()));
        assert_eq!(parsed("10.0.0.1"), Ok("http://10.0.0.1:50050".to_owned()));
        for wrong in ["", "https://head:1", "http://head:1/path", "http://u:p@head:1", "http://head:99999", "http://"] {
            assert!(parsed(wrong).is_err_and(|error| error.contains("wanted the URL of a scheduler")), "{wrong}");
        }
    }
}
