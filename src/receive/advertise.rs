//! Step 1: what the repository has, before the client says what it wants.

use super::{NonceTerms, ReceiveError, Receiver, Target};
use crate::model::HashKind;
use crate::refs::{AdvertisedRef, advertised};
use crate::repo::Environment;
use crate::report::{Fault, Phase};
use crate::wire::{AdvertisementEncoder, ProtocolVersion};
use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Bytes after which the lines made so far are handed on.
const CHUNK_BYTES: usize = 64 * 1024;

/// Writes the advertisement of `target` to `output`, chunk by chunk, without the preamble that
/// HTTP puts in front. However many packed refs there are, a reader that is slow, or does not read
/// at all, holds no more than two chunks and the refs that have files.
pub(super) fn advertise(
    receiver: &Receiver,
    target: &Target,
    environment: &Environment,
    nonce_terms: &NonceTerms,
    output: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), ReceiveError> {
    let version = environment
        .var("GIT_PROTOCOL")
        .map_or(ProtocolVersion::V0, |value| ProtocolVersion::from_git_protocol(value.as_bytes()));
    let packet_trace = receiver.packet_trace();
    let output = &mut |bytes: &[u8]| {
        packet_trace.sent(bytes);
        output(bytes)
    };
    let mut buffer = Vec::with_capacity(CHUNK_BYTES + 4096);
    let repository = match target {
        Target::Existing(repository) => repository,
        Target::Fresh { .. } => {
            let settings = receiver.fresh_settings(environment)?;
            settings.refuse_unsupported(Phase::Discovery)?;
            let offered = receiver.offer(HashKind::Sha1, &settings, environment, nonce_terms);
            AdvertisementEncoder::begin(&mut buffer, version, &offered).finish(&mut buffer, []);
            return output(&buffer).map_err(client_gone);
        }
    };
    let settings = receiver.settings(repository)?;
    settings.refuse_unsupported(Phase::Discovery)?;
    let store = receiver.ref_store(repository, &settings, environment)?;
    let listed = advertised(&store, &settings.hidden)
        .map_err(|error| ReceiveError::internal(Phase::Discovery, "reading the refs", error))?;
    let alternates = receiver.alternate_tips(repository, environment, &store, &settings);
    let mut told = HashSet::new();
    let offered = receiver.offer(repository.hash(), &settings, environment, nonce_terms);
    let mut encoder = AdvertisementEncoder::begin(&mut buffer, version, &offered);
    for line in listed.lines() {
        if !alternates.is_empty() {
            told.insert(line.id());
        }
        match line {
            // A name that cannot be framed is left out, as a badly named one is.
            AdvertisedRef::Ref { name, id } => {
                drop(encoder.reference_in_digits(&mut buffer, id, name));
            }
            AdvertisedRef::Have { id } => encoder.have(&mut buffer, &id.id()),
        }
        hand_on(&mut buffer, output)?;
    }
    for id in alternates.news(&mut told) {
        encoder.have(&mut buffer, &id);
        hand_on(&mut buffer, output)?;
    }
    let shallow = store
        .shallow()
        .map_err(|error| ReceiveError::internal(Phase::Discovery, "reading 'shallow'", error))?;
    encoder.finish(&mut buffer, shallow);
    output(&buffer).map_err(client_gone)
}

/// Hands the lines on if they are many.
fn hand_on(
    buffer: &mut Vec<u8>,
    output: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), ReceiveError> {
    if buffer.len() >= CHUNK_BYTES {
        output(buffer).map_err(client_gone)?;
        buffer.clear();
    }
    Ok(())
}

fn client_gone(error: io::Error) -> ReceiveError {
    let text = "the client went away during the advertisement";
    ReceiveError::new(Fault::Disconnected, Phase::Discovery, text).with_source(error)
}
