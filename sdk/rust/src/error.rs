//! Errors of a record: returned by user functions, told to the host by the loop.

use crate::abi;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

/// What user functions return. `Err` undoes the record's effects and hands it to the error policy.
pub type Result<T> = core::result::Result<T, Error>;

/// Why a record failed. One pointer wide, so that `Result<()>` travels in a register.
///
/// With the `std` feature every `std::error::Error` converts with `?`; that is why `Error` itself
/// does not implement that trait.
pub struct Error(Box<Kind>);

enum Kind {
    Static(&'static str),
    Owned(String),
}

impl Error {
    /// An error with a fixed message.
    #[cold]
    pub fn msg(text: &'static str) -> Error {
        Error(Box::new(Kind::Static(text)))
    }

    /// An error with a made-up message; see also [`bail!`](crate::bail).
    #[cold]
    pub fn new(text: impl Into<String>) -> Error {
        Error(Box::new(Kind::Owned(text.into())))
    }

    /// The message.
    pub fn message(&self) -> &str {
        match &*self.0 {
            Kind::Static(s) => s,
            Kind::Owned(s) => s,
        }
    }

    #[cold]
    pub(crate) fn status(call: &'static str, status: i32) -> Error {
        let why = match status {
            abi::STATUS_ABSENT => "no such entry",
            abi::STATUS_TOO_SMALL => "the buffer is too small",
            abi::STATUS_BAD_ARG => "unknown state, output, iterator or domain",
            abi::STATUS_BAD_POINTER => "a byte range outside the memory",
            abi::STATUS_LIMIT => "over a limit",
            abi::STATUS_NO_KEY => "there is no current key: the function is not keyed",
            abi::STATUS_FORBIDDEN => "not allowed in this callback",
            _ => "unknown status",
        };
        Error::new(alloc::format!("{call}: {why} ({status})"))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

#[cfg(feature = "std")]
impl<E: std::error::Error> From<E> for Error {
    #[cold]
    fn from(e: E) -> Error {
        use alloc::string::ToString;
        Error::new(e.to_string())
    }
}

#[cfg(not(feature = "std"))]
mod without_std {
    use super::Error;
    use alloc::string::ToString;

    macro_rules! from {
        ($($t:ty),*) => {$(
            impl From<$t> for Error {
                #[cold]
                fn from(e: $t) -> Error {
                    Error::new(e.to_string())
                }
            }
        )*};
    }
    from!(core::str::Utf8Error, core::num::ParseIntError, core::num::ParseFloatError, core::fmt::Error);
}

/// Returns an error made like `format!`: `bail!("amount {n} is negative")`.
#[macro_export]
macro_rules! bail {
    ($($t:tt)*) => {
        return Err($crate::Error::new($crate::__private::format!($($t)*)))
    };
}
