//! Modules whose own variables are state: the stream by which they go over to the next module.

use alloc::vec::Vec;

use crate::error::Result;
use crate::host;

/// The stream of the module's one instance, made or read as a whole.
pub struct Stream {
    bytes: Vec<u8>,
    at: usize,
    made: bool,
}

impl Stream {
    /// An empty one.
    pub const fn new() -> Stream {
        Stream { bytes: Vec::new(), at: 0, made: false }
    }

    /// The next part of what `save` wrote; its length, 0 at the end.
    pub fn save(&mut self, save: fn(&mut Vec<u8>), buf: &mut [u8]) -> i32 {
        if !self.made {
            save(&mut self.bytes);
            self.made = true;
        }
        let n = buf.len().min(self.bytes.len() - self.at);
        buf[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        n as i32
    }

    /// Takes a part; the empty one at the end gives all to `load`. 0 is good.
    pub fn load(&mut self, load: fn(&[u8]) -> Result<()>, part: &[u8]) -> i32 {
        if !part.is_empty() {
            self.bytes.extend_from_slice(part);
            return 0;
        }
        match load(&core::mem::take(&mut self.bytes)) {
            Ok(()) => 0,
            Err(e) => {
                host::fail(e.message().as_bytes()); // ends the call
                1
            }
        }
    }
}
