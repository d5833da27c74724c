// SPDX-License-Identifier: MIT OR Apache-2.0
//! One wgpu device per adapter and process, opened on first need and shared by every element.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use once_cell::sync::OnceCell;

use super::cache;
use super::plan::{Binding, Kernel};
use crate::error::{Error, Result};

/// What one adapter is, as `gpus` listings and error texts show it.
#[derive(Debug, Clone)]
pub struct AdapterDescription {
    pub index: usize,
    pub name: String,
    pub backend: String,
    pub driver: String,
    pub kind: wgpu::DeviceType,
}

impl std::fmt::Display for AdapterDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({}, {})", self.index, self.name, self.backend, self.driver)
    }
}

/// An open device with its queue and compiled kernels.
///
/// Everything is safe to call from several threads. Once [`Gpu::lost`] reports a loss the device stays unusable;
/// the next [`Gpu::shared`] for the adapter opens a new one.
pub struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    info: wgpu::AdapterInfo,
    cooperative: Vec<wgpu::CooperativeMatrixProperties>,
    lost: Arc<Mutex<Option<String>>>,
    pipelines: Mutex<HashMap<String, Weak<Pipeline>>>,
    /// Pipelines that stay compiled without a user, for the next start; the one used last at the end.
    recent: Mutex<VecDeque<Arc<Pipeline>>>,
    /// Kernels checked on this device, and what came of it.
    verdicts: Mutex<HashMap<String, bool>>,
    /// How the templates begin whose kernels a test made do nothing.
    broken: Mutex<Option<String>>,
    pipeline_cache: Option<(wgpu::PipelineCache, PathBuf)>,
}

/// Pipelines kept for the next start: those of a few networks, sizes and formats.
const RECENT_PIPELINES: usize = 256;

/// GPU memory in use. Every buffer has an allocation of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub allocations: usize,
    pub bytes: u64,
}

/// A compiled kernel and the layout its bind groups follow.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub pipeline: wgpu::ComputePipeline,
    pub layout: wgpu::BindGroupLayout,
}

// A panicking thread leaves plain data behind these locks; it stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Adapters {
    // Adapters must not outlive their instance.
    list: Vec<wgpu::Adapter>,
    _instance: wgpu::Instance,
}

fn discover() -> Result<&'static Adapters> {
    static ADAPTERS: OnceCell<Adapters> = OnceCell::new();
    // A failure is not remembered: a driver installed meanwhile is found by the next attempt.
    ADAPTERS.get_or_try_init(|| {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12,
            ..wgpu::InstanceDescriptor::new_without_display_handle_from_env()
        });
        let list = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        let list: Vec<_> = list.into_iter().filter(|a| a.limits().max_compute_workgroups_per_dimension > 0).collect();
        if list.is_empty() { Err(Error::NoAdapter) } else { Ok(Adapters { list, _instance: instance }) }
    })
}

fn describe(index: usize, info: &wgpu::AdapterInfo) -> AdapterDescription {
    AdapterDescription {
        index,
        name: info.name.clone(),
        backend: info.backend.to_string(),
        driver: [info.driver.as_str(), info.driver_info.as_str()].join(" ").trim().to_owned(),
        kind: info.device_type,
    }
}

/// Every adapter of this machine, in the order their indices count.
pub fn adapters() -> Result<Vec<AdapterDescription>> {
    Ok(discover()?.list.iter().enumerate().map(|(i, a)| describe(i, &a.get_info())).collect())
}

/// The adapter that `wanted` names: `None` or empty for the fastest kind, an index, or a part of a name in any case.
fn choose(list: &[AdapterDescription], wanted: Option<&str>) -> Result<usize> {
    let wanted = wanted.map(str::trim).filter(|w| !w.is_empty());
    let found = match wanted {
        None => {
            let rank = |kind| match kind {
                wgpu::DeviceType::DiscreteGpu => 0,
                wgpu::DeviceType::IntegratedGpu => 1,
                wgpu::DeviceType::VirtualGpu => 2,
                wgpu::DeviceType::Other => 3,
                wgpu::DeviceType::Cpu => 4,
            };
            list.iter().min_by_key(|a| (rank(a.kind), a.index))
        }
        Some(w) => match w.parse::<usize>() {
            Ok(index) => list.get(index),
            Err(_) => list.iter().find(|a| a.name.to_lowercase().contains(&w.to_lowercase())),
        },
    };
    found.map(|a| a.index).ok_or_else(|| match wanted {
        None => Error::NoAdapter,
        Some(w) => Error::AdapterNotFound {
            wanted: w.to_owned(),
            available: list.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        },
    })
}

impl Gpu {
    /// The process-wide device of the adapter that `adapter` names (`None`: the fastest kind there is; an index such
    /// as `"1"`; or a part of its name). Opened on first need; opened anew after a loss.
    pub fn shared(adapter: Option<&str>) -> Result<Arc<Self>> {
        static OPEN: Mutex<Vec<(usize, Arc<Gpu>)>> = Mutex::new(Vec::new());
        let found = discover()?;
        let descriptions: Vec<_> = found.list.iter().enumerate().map(|(i, a)| describe(i, &a.get_info())).collect();
        let index = choose(&descriptions, adapter)?;
        let mut open = lock(&OPEN);
        open.retain(|(_, gpu)| gpu.lost().is_none());
        if let Some((_, gpu)) = open.iter().find(|(i, _)| *i == index) {
            return Ok(gpu.clone());
        }
        let gpu = Arc::new(Self::open(&found.list[index])?);
        open.push((index, gpu.clone()));
        Ok(gpu)
    }

    fn open(adapter: &wgpu::Adapter) -> Result<Self> {
        let wanted = wgpu::Features::SHADER_F16
            | wgpu::Features::SUBGROUP
            | wgpu::Features::TIMESTAMP_QUERY
            | wgpu::Features::PIPELINE_CACHE
            | wgpu::Features::IMMEDIATES
            | wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("framecast"),
            required_features: adapter.features() & wanted,
            required_limits: adapter.limits(),
            // SAFETY: cooperative matrices are the one experimental feature asked for; kernels using them are checked
            // against a reference before use.
            experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
            ..Default::default()
        }))
        .map_err(|error| Error::Gpu(format!("cannot open adapter {:?}: {error}", adapter.get_info().name)))?;

        let info = adapter.get_info();
        let lost = Arc::new(Mutex::new(None));
        device.set_device_lost_callback({
            let lost = lost.clone();
            move |_, message| {
                lock(&lost).get_or_insert(message);
            }
        });
        // Errors belong to the scope of whoever issued the call (`Gpu::scoped`); what still arrives here is logged
        // rather than, as by default, a panic.
        device.on_uncaptured_error(Arc::new(|error| log::error!("uncaptured GPU error: {error}")));

        let pipeline_cache = Self::open_pipeline_cache(&device, &info);
        log::info!("opened {} ({}), {:?}", info.name, info.driver_info, device.features());
        Ok(Self {
            cooperative: adapter.cooperative_matrix_properties(),
            device,
            queue,
            info,
            lost,
            pipelines: Mutex::default(),
            recent: Mutex::default(),
            verdicts: Mutex::default(),
            broken: Mutex::default(),
            pipeline_cache,
        })
    }

    fn open_pipeline_cache(device: &wgpu::Device, info: &wgpu::AdapterInfo) -> Option<(wgpu::PipelineCache, PathBuf)> {
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let path = cache::directory()?.join(wgpu::util::pipeline_cache_key(info)?);
        let data = cache::load(&path);
        // SAFETY: the data comes from `get_data` of an earlier run: the file lives in the user's private cache
        // directory, its checksum was verified, and the driver checks its own header (device and driver version).
        let cache = unsafe {
            device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: Some("framecast"),
                data: data.as_deref(),
                fallback: true,
            })
        };
        Some((cache, path))
    }

    /// Name of the adapter, as its driver reports it.
    pub fn adapter_name(&self) -> &str {
        &self.info.name
    }

    /// Whether kernels may store 16-bit floats.
    pub fn has_f16(&self) -> bool {
        self.device.features().contains(wgpu::Features::SHADER_F16)
    }

    /// Whether GPU time can be measured.
    pub fn has_timestamps(&self) -> bool {
        self.device.features().contains(wgpu::Features::TIMESTAMP_QUERY)
    }

    /// Whether the adapter runs on the CPU (lavapipe, WARP): other kernels are fast there.
    pub fn is_cpu(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }

    /// The cooperative-matrix shapes of the adapter; empty where kernels cannot use them.
    pub fn cooperative_matrices(&self) -> &[wgpu::CooperativeMatrixProperties] {
        if self.device.features().contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
            &self.cooperative
        } else {
            &[]
        }
    }

    /// Adapter, driver and backend.
    pub fn info(&self) -> &wgpu::AdapterInfo {
        &self.info
    }

    /// The device's limits.
    pub fn limits(&self) -> wgpu::Limits {
        self.device.limits()
    }

    /// Why the device is lost, if it is.
    pub fn lost(&self) -> Option<String> {
        lock(&self.lost).clone()
    }

    /// Marks the device lost and destroys it, so that tests can see what a driver reset does.
    #[doc(hidden)]
    pub fn lose_for_test(&self) {
        lock(&self.lost).get_or_insert_with(|| "destroyed by a test".into());
        self.device.destroy();
    }

    /// Makes kernels compiled from now on do nothing, as those of a faulty driver, if the name of their template (a file
    /// under shaders/) begins with `templates`.
    #[doc(hidden)]
    pub fn break_for_test(&self, templates: &str) {
        *lock(&self.broken) = Some(templates.to_owned());
    }

    /// What is allocated on the device now, once it has let go of everything that is not used any more; `None` where
    /// the backend does not tell (Metal).
    pub fn memory(&self) -> Option<Memory> {
        // What was dropped is freed when the work that used it is known to be done. A failure shows at the next use.
        let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
        let report = self.device.generate_allocator_report()?;
        Some(Memory { allocations: report.allocations.len(), bytes: report.total_allocated_bytes })
    }

    pub(crate) fn device(&self) -> &wgpu::Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// What `check` found for the kernel `name` on this device; it runs once.
    pub(crate) fn verdict(&self, name: &str, check: impl FnOnce() -> Result<bool>) -> Result<bool> {
        if let Some(&verdict) = lock(&self.verdicts).get(name) {
            return Ok(verdict);
        }
        let verdict = check()?;
        lock(&self.verdicts).insert(name.to_owned(), verdict);
        Ok(verdict)
    }

    /// Fails if the device is lost.
    pub fn check(&self) -> Result<()> {
        self.lost().map_or(Ok(()), |reason| Err(Error::DeviceLost(reason)))
    }

    /// Runs `work` and returns the first error wgpu reports for its calls, so that an error reaches the element that
    /// caused it and no other.
    pub fn scoped<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check()?;
        let scopes = [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Internal]
            .map(|filter| self.device.push_error_scope(filter));
        let result = work();
        let mut first = None;
        for scope in scopes.into_iter().rev() {
            first = first.or(pollster::block_on(scope.pop()));
        }
        self.check()?;
        match first {
            None => result,
            Some(error) => Err(Error::Gpu(error.to_string())),
        }
    }

    /// Waits for a submission to finish.
    pub fn wait(&self, submission: &wgpu::SubmissionIndex) -> Result<()> {
        let wait = wgpu::PollType::Wait { submission_index: Some(submission.clone()), timeout: None };
        let polled = self.device.poll(wait);
        self.check()?;
        polled.map(|_| ()).map_err(|error| Error::Gpu(format!("waiting for the GPU failed: {error}")))
    }

    /// Compiles the kernels not compiled yet, on several threads, and keeps the driver's cache on disk current.
    pub(crate) fn compile(&self, kernels: &[Kernel]) -> Result<Vec<Arc<Pipeline>>> {
        // The shared map holds pipelines weakly: what is found is kept alive here, or another user's drop removes it.
        let mut ready: HashMap<&str, Arc<Pipeline>> = {
            let map = lock(&self.pipelines);
            let found = |k: &Kernel| map.get(&k.wgsl).and_then(Weak::upgrade);
            kernels.iter().filter_map(|k| Some((k.wgsl.as_str(), found(k)?))).collect()
        };
        let mut missing: Vec<&Kernel> = kernels.iter().filter(|k| !ready.contains_key(k.wgsl.as_str())).collect();
        missing.sort_by_key(|k| &k.wgsl);
        missing.dedup_by_key(|k| &k.wgsl);
        let next = std::sync::atomic::AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(missing.len());
        let compiled = std::thread::scope(|scope| -> Result<Vec<(&str, Arc<Pipeline>)>> {
            let work = || -> Result<Vec<(&str, Arc<Pipeline>)>> {
                let mut mine = Vec::new();
                while let Some(kernel) = missing.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let pipeline = Arc::new(self.compile_one(kernel)?);
                    let mut map = lock(&self.pipelines);
                    map.retain(|_, pipeline| pipeline.strong_count() > 0);
                    map.insert(kernel.wgsl.clone(), Arc::downgrade(&pipeline));
                    drop(map);
                    mine.push((kernel.wgsl.as_str(), pipeline));
                }
                Ok(mine)
            };
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut all = Vec::new();
            for worker in workers {
                let result = worker.join().map_err(|_| Error::Gpu("a shader compiler thread panicked".into()))?;
                all.extend(result?);
            }
            Ok(all)
        })?;
        if !compiled.is_empty() {
            self.save_pipeline_cache();
        }
        ready.extend(compiled);
        self.remember(ready.values());
        kernels
            .iter()
            .map(|k| {
                let pipeline = ready.get(k.wgsl.as_str()).cloned();
                pipeline.ok_or_else(|| Error::Gpu(format!("kernel {} was not compiled", k.label)))
            })
            .collect()
    }

    fn remember<'a>(&self, pipelines: impl Iterator<Item = &'a Arc<Pipeline>>) {
        let mut recent = lock(&self.recent);
        for pipeline in pipelines {
            recent.retain(|known| !Arc::ptr_eq(known, pipeline));
            if recent.len() == RECENT_PIPELINES {
                recent.pop_front();
            }
            recent.push_back(pipeline.clone());
        }
    }

    fn compile_one(&self, kernel: &Kernel) -> Result<Pipeline> {
        self.scoped(|| {
            let entries: Vec<_> = kernel
                .bindings
                .iter()
                .zip(0..)
                .map(|(binding, index)| wgpu::BindGroupLayoutEntry {
                    binding: index,
                    visibility: wgpu::ShaderStages::COMPUTE,
                    ty: wgpu::BindingType::Buffer {
                        ty: match binding {
                            Binding::Uniform => wgpu::BufferBindingType::Uniform,
                            Binding::Read => wgpu::BufferBindingType::Storage { read_only: true },
                            Binding::Write => wgpu::BufferBindingType::Storage { read_only: false },
                        },
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                })
                .collect();
            let label = Some(kernel.label.as_str());
            let layout =
                self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
            let pipeline_layout = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let broken = lock(&self.broken).as_deref().is_some_and(|broken| kernel.template.starts_with(broken));
            let wgsl = if broken { "@compute @workgroup_size(1) fn main() {}" } else { kernel.wgsl.as_str() };
            // SAFETY: kernels bound their own loops and indices; their templates are tested against CPU twins at odd
            // shapes, and drivers keep robust buffer access on.
            let module = unsafe {
                self.device.create_shader_module_trusted(
                    wgpu::ShaderModuleDescriptor { label, source: wgpu::ShaderSource::Wgsl(wgsl.into()) },
                    wgpu::ShaderRuntimeChecks::unchecked(),
                )
            };
            let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label,
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: self.pipeline_cache.as_ref().map(|(cache, _)| cache),
            });
            Ok(Pipeline { pipeline, layout })
        })
    }

    fn save_pipeline_cache(&self) {
        let Some((cache, path)) = &self.pipeline_cache else { return };
        if let Some(data) = cache.get_data()
            && let Err(error) = cache::store(path, &data)
        {
            log::warn!("cannot keep compiled pipelines in {}: {error}", path.display());
        }
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").field("adapter", &self.info.name).field("lost", &self.lost()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fake(index: usize, name: &str, kind: wgpu::DeviceType) -> AdapterDescription {
        AdapterDescription { index, name: name.into(), backend: "vulkan".into(), driver: "test".into(), kind }
    }

    #[test]
    fn adapter_choice() {
        let list = [
            fake(0, "llvmpipe (LLVM 15)", wgpu::DeviceType::Cpu),
            fake(1, "Intel Arc", wgpu::DeviceType::IntegratedGpu),
            fake(2, "NVIDIA H200", wgpu::DeviceType::DiscreteGpu),
            fake(3, "NVIDIA L4", wgpu::DeviceType::DiscreteGpu),
        ];
        assert_eq!(choose(&list, None).unwrap(), 2);
        assert_eq!(choose(&list, Some("")).unwrap(), 2);
        assert_eq!(choose(&list, Some("1")).unwrap(), 1);
        assert_eq!(choose(&list, Some("nvidia l4")).unwrap(), 3);
        assert!(matches!(choose(&[], None), Err(Error::NoAdapter)));
        for wanted in ["4", "radeon"] {
            let text = choose(&list, Some(wanted)).unwrap_err().to_string();
            assert!(text.contains(wanted) && text.contains("3: NVIDIA L4"), "{text}");
        }
    }
}
