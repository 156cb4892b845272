//! How values and map keys become bytes.

use crate::schema::Schema;
use alloc::string::String;
use alloc::vec::Vec;

/// A type that a state can hold. Numbers are little endian; [`codec!`](crate::codec) makes structs of
/// fixed-size fields one.
pub trait Codec: Sized {
    /// The most bytes a value takes; 0: no bound of its own, so the state is reached by host calls.
    const MAX_BYTES: usize;

    /// How the bytes are to be read, by people who look into a snapshot.
    const SCHEMA: Schema = Schema::Unknown;

    /// Hands the encoded bytes to `f`, from the stack or from the value itself.
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R;

    /// The value of `bytes`; `None` if they are not one.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// A [`Codec`] of one size, so that it can be a field of a struct.
pub trait Fixed: Codec {
    /// Writes exactly `MAX_BYTES` bytes.
    fn write(&self, out: &mut [u8]);
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Codec for $t {
            const MAX_BYTES: usize = core::mem::size_of::<$t>();
            const SCHEMA: Schema = Schema::Type(stringify!($t));
            #[inline(always)]
            fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
                f(&self.to_le_bytes())
            }
            #[inline(always)]
            fn decode(bytes: &[u8]) -> Option<Self> {
                match bytes.try_into() {
                    Ok(b) => Some(<$t>::from_le_bytes(b)),
                    Err(_) => None,
                }
            }
        }
        impl Fixed for $t {
            #[inline(always)]
            fn write(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
number!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

impl Codec for bool {
    const MAX_BYTES: usize = 1;
    const SCHEMA: Schema = Schema::Type("bool");
    #[inline(always)]
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&[*self as u8])
    }
    #[inline(always)]
    fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl Fixed for bool {
    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        out[0] = *self as u8;
    }
}

impl<const N: usize> Codec for [u8; N] {
    const MAX_BYTES: usize = N;
    const SCHEMA: Schema = Schema::Bytes(N);
    #[inline(always)]
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
    #[inline(always)]
    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

impl<const N: usize> Fixed for [u8; N] {
    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(self);
    }
}

/// Bytes of any length: reached by host calls, copied on each read.
impl Codec for Vec<u8> {
    const MAX_BYTES: usize = 0;
    const SCHEMA: Schema = Schema::Bytes(0);
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

/// Text of any length: reached by host calls, copied on each read.
impl Codec for String {
    const MAX_BYTES: usize = 0;
    const SCHEMA: Schema = Schema::Type("utf8");
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.as_bytes())
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        core::str::from_utf8(bytes).ok().map(String::from)
    }
}

/// At most `N` bytes, kept inline: a state of it comes with the batch (N up to 4,096) and costs no
/// allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bounded<const N: usize> {
    len: usize,
    bytes: [u8; N],
}

impl<const N: usize> Bounded<N> {
    /// The bytes; `None` if there are more than `N`.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut b = Bounded { len: bytes.len(), bytes: [0; N] };
        b.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(b)
    }
}

impl<const N: usize> core::ops::Deref for Bounded<N> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> core::fmt::Debug for Bounded<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(&**self, f)
    }
}

impl<const N: usize> Codec for Bounded<N> {
    const MAX_BYTES: usize = N;
    const SCHEMA: Schema = Schema::Bytes(0);
    #[inline(always)]
    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
    #[inline(always)]
    fn decode(bytes: &[u8]) -> Option<Self> {
        Bounded::new(bytes)
    }
}

/// Makes a struct of fixed-size fields a state value: fields back to back in order, numbers little
/// endian. It also derives `Clone`, `Copy`, `Debug`, `PartialEq` and `Default`.
///
/// ```
/// millrace::codec! {
///     /// Running count and sum.
///     pub struct Total { pub count: u64, pub sum: i64 }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! codec {
    ($(#[$m:meta])* $v:vis struct $name:ident { $($(#[$fm:meta])* $fv:vis $f:ident : $t:ty),+ $(,)? }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, PartialEq, Default)]
        $v struct $name { $($(#[$fm])* $fv $f: $t),+ }

        impl $crate::Codec for $name {
            const MAX_BYTES: usize = 0 $(+ <$t as $crate::Codec>::MAX_BYTES)+;
            const SCHEMA: $crate::Schema = $crate::Schema::Struct(&[$((stringify!($f), <$t as $crate::Codec>::SCHEMA)),+]);
            #[inline(always)]
            fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
                let mut b = [0u8; 0 $(+ <$t as $crate::Codec>::MAX_BYTES)+];
                $crate::Fixed::write(self, &mut b);
                f(&b)
            }
            #[inline(always)]
            fn decode(b: &[u8]) -> Option<Self> {
                if b.len() != <Self as $crate::Codec>::MAX_BYTES {
                    return None;
                }
                let at = 0;
                $(
                    let end = at + <$t as $crate::Codec>::MAX_BYTES;
                    let $f = <$t as $crate::Codec>::decode(&b[at..end])?;
                    let at = end;
                )+
                let _ = at;
                Some($name { $($f),+ })
            }
        }

        impl $crate::Fixed for $name {
            #[inline(always)]
            fn write(&self, out: &mut [u8]) {
                let at = 0;
                $(
                    let end = at + <$t as $crate::Codec>::MAX_BYTES;
                    $crate::Fixed::write(&self.$f, &mut out[at..end]);
                    let at = end;
                )+
                let _ = at;
            }
        }
    };
}

/// A type that can key a map state. Its bytes sort as its values do, so scans come in order.
pub trait MapKey {
    /// How the bytes are to be read, by people who look into a snapshot.
    const KEY_SCHEMA: Schema = Schema::Unknown;
    /// What a scan gives back.
    type Owned;
    /// Hands the key's bytes to `f`.
    fn with_key<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R;
    /// The key of `bytes`; `None` if they are not one.
    fn decode_key(bytes: &[u8]) -> Option<Self::Owned>;
}

macro_rules! unsigned_key {
    ($($t:ty: $schema:expr),*) => {$(
        /// Big endian.
        impl MapKey for $t {
            const KEY_SCHEMA: Schema = $schema;
            type Owned = $t;
            fn with_key<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
                f(&self.to_be_bytes())
            }
            fn decode_key(bytes: &[u8]) -> Option<$t> {
                bytes.try_into().ok().map(<$t>::from_be_bytes)
            }
        }
    )*};
}
unsigned_key!(u8: Schema::Type("u8"), u16: Schema::Unknown, u32: Schema::Unknown, u64: Schema::Type("key_u64"));

/// Big endian with the sign bit flipped.
impl MapKey for i64 {
    const KEY_SCHEMA: Schema = Schema::Type("key_i64");
    type Owned = i64;
    fn with_key<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&((*self as u64) ^ (1 << 63)).to_be_bytes())
    }
    fn decode_key(bytes: &[u8]) -> Option<i64> {
        u64::decode_key(bytes).map(|u| (u ^ (1 << 63)) as i64)
    }
}

impl MapKey for str {
    const KEY_SCHEMA: Schema = Schema::Type("utf8");
    type Owned = String;
    fn with_key<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.as_bytes())
    }
    fn decode_key(bytes: &[u8]) -> Option<String> {
        core::str::from_utf8(bytes).ok().map(String::from)
    }
}

impl MapKey for [u8] {
    const KEY_SCHEMA: Schema = Schema::Bytes(0);
    type Owned = Vec<u8>;
    fn with_key<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
    fn decode_key(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}
