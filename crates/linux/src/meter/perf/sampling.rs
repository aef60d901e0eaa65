//! Sampling instruction pointers of jobs, for the phases of iabw section 4.2.
//!
//! An inherited event can write only into a buffer that belongs to one CPU. So there is one ring
//! buffer for each CPU, held by an event that counts nothing, and each job has one sampling event
//! per CPU whose output goes there; the event's ID in each record says which job it was. Buffers
//! cost 516 KiB a CPU, the unprivileged limit, however many jobs there are; a job costs one file
//! descriptor per CPU.
//!
//! Where there is a PMU, a sample is taken every million instructions, as in the paper; elsewhere
//! every millisecond of CPU time. Both see user code alone. The kernel starts a full period for
//! each new thread or child, so those that end before it are never seen.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;

use memweir_core::JobId;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter, SampleFlag, Sampler};

use super::records::{self, Record, What};
use super::regions::CodeRegions;
use crate::topology::online_cpus;

/// The choice of sampling, which costs an interrupt per sample and one file descriptor per job and
/// CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleIps {
    /// No samples: readings carry none.
    #[default]
    No,
    /// Samples of every job.
    Yes,
}

/// The trigger of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trigger {
    /// Every million instructions.
    Instructions,
    /// Every millisecond on a CPU.
    CpuClock,
}

/// Instructions between two samples (iabw section 4.2).
const INSTRUCTIONS_PER_SAMPLE: u64 = 1_000_000;
/// Nanoseconds between two samples.
const NANOS_PER_SAMPLE: u64 = 1_000_000;
/// Data pages of a buffer; with the control page, all that `perf_event_mlock_kb` allows.
const BUFFER_PAGES: usize = 128;
/// A buffer smaller than this overflows within one quantum.
const LEAST_PAGES: usize = 8;

impl Trigger {
    fn builder(self) -> Builder<'static> {
        let mut builder = match self {
            Self::Instructions => Builder::new(Hardware::INSTRUCTIONS),
            Self::CpuClock => Builder::new(Software::CPU_CLOCK),
        };
        builder.sample_period(match self {
            Self::Instructions => INSTRUCTIONS_PER_SAMPLE,
            Self::CpuClock => NANOS_PER_SAMPLE,
        });
        with_records(&mut builder);
        builder
    }

    /// Returns the best trigger that this machine and these privileges allow.
    fn choose() -> io::Result<Self> {
        match Self::Instructions.builder().build() {
            Ok(_) => Ok(Self::Instructions),
            Err(_) => Self::CpuClock.builder().build().map(|_| Self::CpuClock),
        }
    }
}

/// Asks for the records that [`records`] reads.
fn with_records(builder: &mut Builder<'_>) {
    builder
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME | SampleFlag::ID)
        .sample_id_all(true)
        .mmap(true)
        .comm(true)
        .comm_exec(true)
        .task(true);
}

/// One CPU's buffer.
struct Ring {
    cpu: usize,
    sampler: Sampler,
}

impl Ring {
    fn open(cpu: usize) -> io::Result<Self> {
        let mut pages = BUFFER_PAGES;
        loop {
            let mut builder = Builder::new(Software::DUMMY);
            // The holder itself must write nothing into the buffer.
            let counter = builder.observe_self().one_cpu(cpu).sample_id_all(true).build()?;
            match counter.sampled(pages * page_size()) {
                // Other users of perf may have taken a part of the memory that may be locked.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && pages > LEAST_PAGES => {
                    pages /= 2;
                }
                Err(error) => return Err(error),
                Ok(sampler) => return Ok(Self { cpu, sampler }),
            }
        }
    }

    fn drain(&mut self, into: &mut Vec<Record>) {
        while let Some(raw) = self.sampler.next_record() {
            into.extend(records::parse(raw.ty(), raw.misc(), &raw.to_contiguous()));
        }
    }
}

fn page_size() -> usize {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(4096)
}

/// The sampling events of one job.
struct SampledJob {
    /// One per CPU; closing them ends the sampling.
    events: Vec<Counter>,
    regions: CodeRegions,
}

/// The samples of all jobs.
pub(super) struct Sampling {
    trigger: Trigger,
    rings: Vec<Ring>,
    jobs: HashMap<JobId, SampledJob>,
    /// The job that each event of the kernel belongs to.
    owners: HashMap<u64, JobId>,
    lost: u64,
}

impl Sampling {
    /// Makes the buffers, one for each CPU that is on line.
    pub(super) fn open() -> io::Result<Self> {
        let trigger = Trigger::choose()?;
        let rings = online_cpus()?.into_iter().map(Ring::open).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { trigger, rings, jobs: HashMap::new(), owners: HashMap::new(), lost: 0 })
    }

    /// Returns the trigger of the samples.
    pub(super) fn trigger(&self) -> Trigger {
        self.trigger
    }

    /// Samples process `pid`, which has not called exec yet, and its future children.
    pub(super) fn attach(&mut self, job: JobId, pid: i32) -> io::Result<()> {
        let mut events = Vec::with_capacity(self.rings.len());
        for ring in &self.rings {
            let event = self
                .trigger
                .builder()
                .observe_pid(pid)
                .one_cpu(ring.cpu)
                .inherit(true)
                .enable_on_exec(true)
                .build()?;
            redirect(&event, &ring.sampler)?;
            events.push(event);
        }
        self.owners.extend(events.iter().map(|event| (event.id(), job)));
        self.jobs.insert(job, SampledJob { events, regions: CodeRegions::default() });
        Ok(())
    }

    /// Takes the histogram of a job's samples since the last call, empty for a job that is not
    /// sampled.
    pub(super) fn take(&mut self, job: JobId) -> Vec<u32> {
        self.drain();
        self.jobs.get_mut(&job).map(|sampled| sampled.regions.take()).unwrap_or_default()
    }

    /// Takes the number of records lost since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Stops sampling a job.
    pub(super) fn detach(&mut self, job: JobId) {
        // Records that are still in the buffers belong to events that will be unknown.
        self.drain();
        if let Some(sampled) = self.jobs.remove(&job) {
            for event in &sampled.events {
                self.owners.remove(&event.id());
            }
        }
    }

    /// Empties all buffers into the histograms. A process moves between CPUs, so its records are
    /// sorted by time first.
    fn drain(&mut self) {
        let mut records = Vec::new();
        for ring in &mut self.rings {
            ring.drain(&mut records);
        }
        records.sort_by_key(|record| record.time);
        for Record { event, what, .. } in records {
            if let What::Lost { count } = what {
                self.lost = self.lost.saturating_add(count);
                continue;
            }
            let job = self.owners.get(&event).and_then(|job| self.jobs.get_mut(job));
            let Some(SampledJob { regions, .. }) = job else { continue };
            match what {
                What::Sample { pid, ip } => regions.sampled(pid, ip),
                What::Mapped { pid, start, length, name } => {
                    regions.mapped(pid, start, length, &name);
                }
                What::Executed { pid } => regions.executed(pid),
                What::Forked { parent, pid } => regions.forked(parent, pid),
                What::Exited { pid } => regions.exited(pid),
                What::Lost { .. } => {}
            }
        }
    }
}

/// Sends the records of `event` into the buffer of `holder`.
fn redirect(event: &Counter, holder: &Sampler) -> io::Result<()> {
    // `_IO('$', 5)` of include/uapi/linux/perf_event.h.
    const PERF_EVENT_IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
    // SAFETY: both descriptors are open perf events for the time of the call, and this request
    // takes a descriptor by value: the kernel touches no memory of ours.
    let result = unsafe {
        libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_OUTPUT as _, holder.as_raw_fd())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_is_not_sampled_has_no_histogram() {
        match Sampling::open() {
            Ok(mut sampling) => {
                assert!(sampling.take(JobId(0)).is_empty());
                assert_eq!(sampling.take_lost(), 0);
            }
            Err(error) => memweir_test_support::skip!(Kernel, "no sampling here: {error}"),
        }
    }
}
