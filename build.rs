// SPDX-License-Identifier: MIT OR Apache-2.0
fn main() {
    #[cfg(feature = "gst")]
    gst_plugin_version_helper::info();
}
