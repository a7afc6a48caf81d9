#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packhouse_fuzz::fsck::run(bytes));
