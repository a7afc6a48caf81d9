//! The query of a discovery request.

use super::percent;
use super::service::Service;

/// What `service=` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// One of the two services.
    Known(Service),
    /// Something else, or nonsense.
    Other,
    /// Nothing: a client of the dumb protocol.
    Nothing,
}

/// Finds the first `service` parameter of a query, percent-decoded once.
pub(super) fn asked_service(query: Option<&str>) -> Asked {
    let parameters = query.unwrap_or_default().split('&');
    for parameter in parameters {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if percent::decode(name.as_bytes()).as_deref() != Some(b"service") {
            continue;
        }
        let service = percent::decode(value.as_bytes()).and_then(|name| Service::from_name(&name));
        return service.map_or(Asked::Other, Asked::Known);
    }
    Asked::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_services_are_found_however_they_are_written() {
        for query in [
            "service=git-receive-pack",
            "service=git%2dreceive%2Dpack",
            "x=1&service=git-receive-pack",
            "service=git-receive-pack&service=git-evil",
            "%73ervice=git-receive-pack",
        ] {
            assert_eq!(asked_service(Some(query)), Asked::Known(Service::ReceivePack), "{query}");
        }
        let upload = asked_service(Some("service=git-upload-pack"));
        assert_eq!(upload, Asked::Known(Service::UploadPack));
    }

    #[test]
    fn other_services_are_told_from_none() {
        for query in ["service=git-evil", "service=", "service", "service=%zz", "service=git-"] {
            assert_eq!(asked_service(Some(query)), Asked::Other, "{query}");
        }
        for query in [None, Some(""), Some("x=1"), Some("Service=git-receive-pack"), Some("&&")] {
            assert_eq!(asked_service(query), Asked::Nothing, "{query:?}");
        }
    }
}
