//! The host calls: imports of the module in wasm, the test harness elsewhere.

#[cfg(target_arch = "wasm32")]
mod sys {
    #[link(wasm_import_module = "mr")]
    extern "C" {
        pub fn next(i: u32) -> u32;
        pub fn fail(msg: *const u8, len: usize);
        pub fn get(state: u32, ukey: *const u8, ukey_len: usize, buf: *mut u8, cap: usize) -> i64;
        pub fn put(state: u32, ukey: *const u8, ukey_len: usize, val: *const u8, val_len: usize) -> i32;
        pub fn delete(state: u32, ukey: *const u8, ukey_len: usize) -> i32;
        pub fn clear(state: u32) -> i32;
        pub fn append(state: u32, val: *const u8, val_len: usize) -> i32;
        pub fn scan(state: u32, from: *const u8, from_len: usize) -> i32;
        pub fn scan_next(iter: u32, buf: *mut u8, cap: usize) -> i32;
        pub fn scan_close(iter: u32) -> i32;
        pub fn timer_set(domain: u32, name: *const u8, name_len: usize, time: i64) -> i32;
        pub fn timer_delete(domain: u32, name: *const u8, name_len: usize, time: i64) -> i32;
        pub fn emit(frame: *const u8, len: usize, at: usize) -> i32;
        pub fn log(level: u32, msg: *const u8, len: usize);
        pub fn metric(name: *const u8, name_len: usize, add: i64) -> i32;
        pub fn random(buf: *mut u8, len: usize) -> i32;
    }
}

#[cfg(target_arch = "wasm32")]
macro_rules! calls {
    ($($(#[$m:meta])* fn $name:ident($($a:ident: $t:ty => [$($e:expr),+]),*) $(-> $r:ty)?;)*) => {$(
        $(#[$m])*
        pub(crate) fn $name($($a: $t),*) $(-> $r)? {
            // Each range comes from a live slice, and the host writes only into those given as &mut.
            unsafe { sys::$name($($($e),+),*) }
        }
    )*};
}

#[cfg(all(not(target_arch = "wasm32"), feature = "std"))]
macro_rules! calls {
    ($($(#[$m:meta])* fn $name:ident($($a:ident: $t:ty => [$($e:expr),+]),*) $(-> $r:ty)?;)*) => {$(
        pub(crate) fn $name($($a: $t),*) $(-> $r)? {
            crate::testing::with_host(|h| h.$name($($a),*))
        }
    )*};
}

#[cfg(all(not(target_arch = "wasm32"), not(feature = "std")))]
macro_rules! calls {
    ($($(#[$m:meta])* fn $name:ident($($a:ident: $t:ty => [$($e:expr),+]),*) $(-> $r:ty)?;)*) => {$(
        pub(crate) fn $name($(_: $t),*) $(-> $r)? {
            panic!("mr.{} outside a host: native runs need the std feature and testing::Harness", stringify!($name))
        }
    )*};
}

calls! {
    #[inline(always)]
    fn next(i: u32 => [i]) -> u32;
    fn fail(msg: &[u8] => [msg.as_ptr(), msg.len()]);
    fn get(state: u32 => [state], ukey: &[u8] => [ukey.as_ptr(), ukey.len()], buf: &mut [u8] => [buf.as_mut_ptr(), buf.len()]) -> i64;
    fn put(state: u32 => [state], ukey: &[u8] => [ukey.as_ptr(), ukey.len()], val: &[u8] => [val.as_ptr(), val.len()]) -> i32;
    fn delete(state: u32 => [state], ukey: &[u8] => [ukey.as_ptr(), ukey.len()]) -> i32;
    fn clear(state: u32 => [state]) -> i32;
    fn append(state: u32 => [state], val: &[u8] => [val.as_ptr(), val.len()]) -> i32;
    fn scan(state: u32 => [state], from: &[u8] => [from.as_ptr(), from.len()]) -> i32;
    fn scan_next(iter: u32 => [iter], buf: &mut [u8] => [buf.as_mut_ptr(), buf.len()]) -> i32;
    fn scan_close(iter: u32 => [iter]) -> i32;
    fn timer_set(domain: u32 => [domain], name: &[u8] => [name.as_ptr(), name.len()], time: i64 => [time]) -> i32;
    fn timer_delete(domain: u32 => [domain], name: &[u8] => [name.as_ptr(), name.len()], time: i64 => [time]) -> i32;
    fn emit(frame: &[u8] => [frame.as_ptr(), frame.len()], at: usize => [at]) -> i32;
    fn log(level: u32 => [level], msg: &[u8] => [msg.as_ptr(), msg.len()]);
    fn metric(name: &[u8] => [name.as_ptr(), name.len()], add: i64 => [add]) -> i32;
    fn random(buf: &mut [u8] => [buf.as_mut_ptr(), buf.len()]) -> i32;
}
