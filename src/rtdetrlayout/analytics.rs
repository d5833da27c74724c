// SPDX-License-Identifier: MIT OR Apache-2.0
//! `GstAnalyticsRelationMeta`, from a library that GStreamer has from 1.24 on: opened at run time, so that the plugin
//! loads without it.

use std::ffi::{OsStr, c_void};
use std::path::PathBuf;
use std::sync::LazyLock;

use gst::glib;
use gst::glib::translate::IntoGlib;
use libloading::Library;

/// `GST_ANALYTICS_REL_TYPE_RELATE_TO`
const RELATE_TO: i32 = 1 << 3;

/// `GstAnalyticsRelationMeta`
type RelationMeta = c_void;

/// `GstAnalyticsMtd` and its kin: what identifies an entry of a relation meta.
#[repr(C)]
struct Mtd {
    id: u32,
    meta: *mut RelationMeta,
}

type AddMeta = unsafe extern "C" fn(*mut gst::ffi::GstBuffer) -> *mut RelationMeta;
type AddObject = unsafe extern "C" fn(*mut RelationMeta, u32, i32, i32, i32, i32, f32, *mut Mtd) -> i32;
type AddClass = unsafe extern "C" fn(*mut RelationMeta, f32, u32, *mut Mtd) -> i32;
type SetRelation = unsafe extern "C" fn(*mut RelationMeta, i32, u32, u32) -> i32;

/// The library's functions.
#[derive(Debug)]
pub struct Analytics {
    add_meta: AddMeta,
    add_object: AddObject,
    add_class: AddClass,
    set_relation: SetRelation,
    /// The functions live as long as it is open.
    _library: Library,
}

impl Analytics {
    /// The functions of the running GStreamer, or why there are none.
    pub fn get() -> Result<&'static Self, &'static str> {
        static ANALYTICS: LazyLock<Result<Analytics, String>> = LazyLock::new(Analytics::open);
        ANALYTICS.as_ref().map_err(|reason| reason.as_str())
    }

    fn open() -> Result<Self, String> {
        let (major, minor, micro, _) = gst::version();
        if (major, minor) < (1, 24) {
            return Err(format!("GStreamer 1.24 or newer is needed, this is {major}.{minor}.{micro}"));
        }
        let mut reason = String::new();
        for path in candidates() {
            match Self::load(&path) {
                Ok(analytics) => return Ok(analytics),
                Err(error) => reason = format!("{}: {error}", path.display()),
            }
        }
        Err(reason)
    }

    fn load(path: impl AsRef<OsStr>) -> Result<Self, libloading::Error> {
        // SAFETY: opening the library runs no code but GStreamer's own constructors; the types are those of its headers,
        // which stay as they are for all of 1.x.
        unsafe {
            let library = Library::new(path)?;
            Ok(Self {
                add_meta: *library.get::<AddMeta>(b"gst_buffer_add_analytics_relation_meta\0")?,
                add_object: *library.get::<AddObject>(b"gst_analytics_relation_meta_add_od_mtd\0")?,
                add_class: *library.get::<AddClass>(b"gst_analytics_relation_meta_add_one_cls_mtd\0")?,
                set_relation: *library.get::<SetRelation>(b"gst_analytics_relation_meta_set_relation\0")?,
                _library: library,
            })
        }
    }

    /// Adds a relation meta to a buffer, or finds the one it has; `None` where GStreamer refuses.
    pub fn relation<'b>(&'static self, buffer: &'b mut gst::BufferRef) -> Option<Relation<'b>> {
        // SAFETY: the buffer is writable.
        let meta = unsafe { (self.add_meta)(buffer.as_mut_ptr()) };
        (!meta.is_null()).then_some(Relation { analytics: self, meta, _buffer: buffer })
    }
}

/// The relation meta of a buffer.
pub struct Relation<'b> {
    analytics: &'static Analytics,
    meta: *mut RelationMeta,
    /// No other meta can be added meanwhile.
    _buffer: &'b mut gst::BufferRef,
}

impl Relation<'_> {
    /// Adds a detection at x, y, width, height, and its class related to it; returns the detection's id.
    pub fn add(&mut self, label: glib::Quark, [x, y, width, height]: [i32; 4], confidence: f32) -> Option<u32> {
        let Analytics { add_object, add_class, set_relation, .. } = self.analytics;
        let mut object = Mtd { id: 0, meta: std::ptr::null_mut() };
        let mut class = Mtd { id: 0, meta: std::ptr::null_mut() };
        let label = label.into_glib();
        // SAFETY: the meta belongs to the buffer that `self` has for itself; the entries are written by the calls.
        let done = unsafe {
            add_object(self.meta, label, x, y, width, height, confidence, &mut object) != 0
                && add_class(self.meta, confidence, label, &mut class) != 0
                && set_relation(self.meta, RELATE_TO, object.id, class.id) != 0
                && set_relation(self.meta, RELATE_TO, class.id, object.id) != 0
        };
        done.then_some(object.id)
    }
}

/// Where the library may be.
#[cfg(unix)]
fn candidates() -> Vec<PathBuf> {
    let name = if cfg!(target_os = "macos") { "libgstanalytics-1.0.0.dylib" } else { "libgstanalytics-1.0.so.0" };
    match folder_of_gstreamer() {
        Some(folder) => vec![folder.join(name)],
        None => vec![name.into()],
    }
}

/// The folder of the loaded libgstreamer: another GStreamer's library would not fit it.
#[cfg(unix)]
fn folder_of_gstreamer() -> Option<PathBuf> {
    use std::ffi::CStr;
    use std::os::unix::ffi::OsStrExt;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr fills `info` or returns 0; the name it gives lives as long as libgstreamer is loaded.
    let name = unsafe {
        if libc::dladdr(gst::ffi::gst_version as *const c_void, info.as_mut_ptr()) == 0 {
            return None;
        }
        let name = info.assume_init().dli_fname;
        if name.is_null() {
            return None;
        }
        CStr::from_ptr(name)
    };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    path.parent().filter(|folder| folder.is_absolute()).map(PathBuf::from)
}

/// Windows searches the folder of the loaded GStreamer as it did for that.
#[cfg(not(unix))]
fn candidates() -> Vec<PathBuf> {
    vec!["gstanalytics-1.0-0.dll".into(), "libgstanalytics-1.0-0.dll".into()]
}
