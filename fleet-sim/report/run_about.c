// Date, release and machine of a run, asked from the system here alone so that the reports
// themselves stay functions of their input. Called by fleet_run.c on the coordinator's thread, when
// the run is over. The beginning is the present moment less the run's duration, so both dates are
// from one reading of the clock.
#include "report/run_about.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void date_text(uint64_t wall_us, char out[SIM_ABOUT_DATE_MAX])
{
    time_t seconds = (time_t)(wall_us / 1000000);
    struct tm parts;
    out[0] = '\0';
    if (gmtime_r(&seconds, &parts) != NULL) {
        (void)strftime(out, SIM_ABOUT_DATE_MAX, "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
}

static void machine_text(char out[SIM_ABOUT_MACHINE_MAX])
{
    struct utsname system;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (uname(&system) != 0) {
        (void)snprintf(out, SIM_ABOUT_MACHINE_MAX, "unknown");
        return;
    }
    (void)snprintf(out, SIM_ABOUT_MACHINE_MAX, "%s, %s %s %s, %ld processors, %.1f GiB",
                   system.nodename, system.sysname, system.release, system.machine, processors,
                   bytes / (1024.0 * 1024 * 1024));
}

void sim_about_fill(const struct sim_version *version, const char *task, double duration_s,
                    struct sim_about *out)
{
    uint64_t now_us = base_clock_wall_us();
    memset(out, 0, sizeof(*out));
    date_text(now_us, out->ended);
    date_text(now_us - (uint64_t)(duration_s * 1e6), out->began);
    machine_text(out->machine);
    (void)snprintf(out->task, sizeof(out->task), "%s",
                   version != NULL && version->task[0] != '\0' ? version->task : task);
    if (version != NULL) {
        (void)snprintf(out->version, sizeof(out->version), "%s", version->label);
        wire_sha256_hex(&version->manifest, out->manifest);
    }
}
