//! The constants of this load.

use profil_common::Settings;

/// Filled in by the loader. It lies in read-only data, which the loader freezes: the verifier knows the values and
/// removes every branch that they rule out.
#[unsafe(no_mangle)]
static SETTINGS: Settings = Settings::NONE;

/// Reads one setting; a macro because each must be read by itself, at its own place, to stay a known constant.
macro_rules! setting {
    ($($field:ident).+) => {{
        // SAFETY: SETTINGS is a static; the volatile read only keeps the compiler from using its initial value.
        unsafe { core::ptr::read_volatile(&raw const (*crate::settings::get()).$($field).+) }
    }};
}
pub(crate) use setting;

/// Whether a bit of [`profil_common::settings_flags`] is set.
#[inline(always)]
pub fn has(flag: u32) -> bool {
    setting!(flags) & flag != 0
}

/// Address of the settings; see [`setting`].
#[inline(always)]
pub fn get() -> *const Settings {
    &raw const SETTINGS
}
