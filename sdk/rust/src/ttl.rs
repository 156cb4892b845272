//! How long what a state holds lives.

/// Time to live of a state's values, list elements or map entries, each from when it was last written:
/// `seen: Value<u64> = Ttl::hours(1)` in [`module!`](crate::module). A pipeline file may say otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    pub(crate) ms: u64,
    pub(crate) processing: bool,
    pub(crate) on_read: bool,
}

impl Ttl {
    /// So many milliseconds of event time: an entry goes when the watermark is that far behind the time of the
    /// record that wrote it.
    pub const fn ms(ms: u64) -> Ttl {
        assert!(ms > 0 && ms < 1 << 50, "a TTL is at least 1 ms, and at most 35,000 years");
        Ttl { ms, processing: false, on_read: false }
    }

    /// So many seconds.
    pub const fn seconds(n: u64) -> Ttl {
        Ttl::ms(n * 1000)
    }

    /// So many minutes.
    pub const fn minutes(n: u64) -> Ttl {
        Ttl::ms(n * 60_000)
    }

    /// So many hours.
    pub const fn hours(n: u64) -> Ttl {
        Ttl::ms(n * 3_600_000)
    }

    /// By the host's clock instead.
    pub const fn processing_time(mut self) -> Ttl {
        self.processing = true;
        self
    }

    /// Reading makes an entry young again, too. Of a value that comes with the batch every record of its key
    /// is a reader.
    pub const fn refresh_on_read(mut self) -> Ttl {
        self.on_read = true;
        self
    }
}
