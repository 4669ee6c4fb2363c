// What a fit comes to: the scenario, with what it is of and how far it is off in its first lines;
// the run that checks it; and the table. fit_main.c calls it on the main thread. The scenario
// appears whole, or not at all.
#include "fit/fit.h"

#include "base/check.h"
#include "base/os/output_file.h"
#include "model/sim_options.h"
#include "swarm/child_run.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>

#define AFTER_S 120.0 // the scenario goes on so long after the last moment

static double end_of(const struct sim_steps *steps)
{
    return steps->count > 0 ? steps->y[steps->count - 1] : 0;
}

static double last_s(const struct sim_fit *fit)
{
    double came = fit->came.x[fit->came.count - 1];
    double ran = fit->ran.count > 0 ? fit->ran.x[fit->ran.count - 1] : 0;
    return came > ran ? came : ran;
}

static uint32_t devices_of(const struct sim_fit *fit)
{
    double devices = end_of(&fit->came);
    return devices < SIM_DEVICES_MAX ? (uint32_t)devices : SIM_DEVICES_MAX;
}

// ---- The scenario

// A name in a comment: one line of it.
static void name_write(const char *name, FILE *file)
{
    for (; *name != '\0'; name++) {
        (void)fputc((unsigned char)*name < ' ' ? '?' : *name, file);
    }
}

static void comment_write(const struct sim_fit *fit, FILE *file)
{
    (void)fputs("# Fitted by walle-fleet-sim fit to ", file);
    name_write(fit->from, file);
    (void)fprintf(
        file,
        ":\n# %.0f devices were offered the version within %.0f s, %.0f ran it.\n#\n"
        "#   walle-fleet-sim run --scenario THIS --virtual GATEWAY --root ROOT\n#\n"
        "# GATEWAY is the data folder of a gateway that is not running, with a rollout to "
        "everybody.\n\n",
        end_of(&fit->came), fit->came.x[fit->came.count - 1], end_of(&fit->ran));
    (void)fprintf(file, "devices = %u\n\n", devices_of(fit));
    (void)fprintf(file,
                  "# When they are there. The line is at most %.2f points of the fleet off, at "
                  "second %.1f.\n",
                  fit->arrivals_off, fit->arrivals_off_s);
}

static void arrivals_write(const struct sim_fit *fit, FILE *file)
{
    (void)fputs("arrivals = points:", file);
    for (uint32_t i = 0; i < fit->knot_count; i++) {
        (void)fprintf(file, "%s%.3f=%.0f", i > 0 ? "," : "", fit->knots_s[i], fit->knots[i]);
    }
    (void)fputc('\n', file);
}

static void delay_write(const struct sim_fit *fit, FILE *file)
{
    if (fit->ran.count == 0) {
        (void)fputs("\n# No curve says when they ran it: answers take 20 ms each way.\n", file);
        return;
    }
    (void)fprintf(file,
                  "\n# From offer to first run, with %u answers: at most %.2f points of those that "
                  "ran it off, %.2f without a delay.\n",
                  fit->exchanges, fit->delay_off, fit->plain_off);
    if (fit->delayed) {
        (void)fprintf(file, "fault = network:delay %u @ %.1f%%\n", fit->delay_ms,
                      fit->delay_ppm / 1e4);
    }
}

enum base_status sim_fit_write(const struct sim_fit *fit, struct base_error *error)
{
    struct base_output_file file;
    base_assert(fit->knot_count > 0);
    BASE_TRY(base_output_open(&file, fit->out, error));
    comment_write(fit, file.file);
    arrivals_write(fit, file.file);
    delay_write(fit, file.file);
    (void)fprintf(file.file, "\nduration = %.0f\n", ceil(last_s(fit) + AFTER_S));
    return base_output_close(&file, ferror(file.file) == 0 ? BASE_OK : BASE_ERR_IO, error);
}

// ---- The check

struct played {
    const struct sim_steps *steps; // NULL: nobody came
    double times;                  // as many devices were given for one that is played
};

static double played_at(const void *ctx, double at_s)
{
    const struct played *played = ctx;
    return played->steps != NULL ? sim_steps_at(played->steps, at_s) * played->times : 0;
}

// The worst second of one curve, in points of the fleet.
static double curve_off(const struct sim_fit *fit, const struct sim_steps *given,
                        const struct sim_steps *played, double devices)
{
    double whole = end_of(&fit->came);
    double worst = 0;
    const struct played all = {played, whole / devices};
    for (uint32_t i = 0; i < given->count; i++) {
        double off = sim_fit_off(given, i, played_at, &all);
        worst = off > worst ? off : worst;
    }
    return worst * 100 / whole;
}

static enum base_status run_measure(struct sim_fit *fit, const char *folder,
                                    struct base_error *error)
{
    static struct sim_run_files files;
    char name[SIM_NAME_MAX];
    BASE_TRY(sim_run_files_read(folder, &files, error));
    const char *manifest =
        json_string_value(json_object_get(json_object_get(files.json, "about"), "manifest"));
    (void)snprintf(name, sizeof(name), "%.70s,offered", manifest != NULL ? manifest : "");
    const struct sim_steps *came = sim_steps_find(files.curves, files.curve_count, name);
    (void)snprintf(name, sizeof(name), "%.70s,ran", manifest != NULL ? manifest : "");
    const struct sim_steps *ran = sim_steps_find(files.curves, files.curve_count, name);
    double of_came = curve_off(fit, &fit->came, came, files.devices);
    double of_ran = fit->ran.count > 0 ? curve_off(fit, &fit->ran, ran, files.devices) : 0;
    fit->checked_off = of_came > of_ran ? of_came : of_ran;
    sim_run_files_done(&files);
    return came != NULL ? BASE_OK
                        : base_error_set(error, BASE_ERR_CONFLICT,
                                         "no device was offered a release in the run that checks "
                                         "it: see %.150s.log",
                                         folder);
}

enum base_status sim_fit_play(struct sim_fit *fit, FILE *log, struct base_error *error)
{
    static struct sim_child child;
    int status = 0;
    int size = snprintf(child.folder, sizeof(child.folder), "%s.check", fit->out);
    if (size >= (int)sizeof(child.folder)) {
        return base_error_set(error, BASE_ERR_INVALID, "--out: path too long");
    }
    const char *const words[] = {"walle-fleet-sim", "run",      "--scenario", fit->out,
                                 "--virtual",       fit->check, "--root",     fit->root,
                                 "--no-live",       "--out",    child.folder, NULL};
    (void)fprintf(log, "playing it on %s\n", fit->check);
    (void)fflush(log);
    BASE_TRY(sim_child_begin(&child, words, error));
    while (waitpid(child.pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return base_error_set(error, BASE_ERR_IO, "waiting for the run: %s", strerror(errno));
        }
    }
    child.pid = 0;
    json_t *report = sim_child_report(&child);
    bool wrote = report != NULL;
    json_decref(report);
    if (!wrote) {
        char said[SIM_CHILD_SAID_MAX];
        sim_child_said(&child, said);
        return base_error_set(error, BASE_ERR_CONFLICT, "the run that checks it: %.200s", said);
    }
    BASE_TRY(run_measure(fit, child.folder, error));
    sim_child_remove(&child);
    return BASE_OK;
}

// ---- The table

void sim_fit_tell(const struct sim_fit *fit, FILE *log)
{
    (void)fprintf(log, "given     %.0f devices offered within %.1f s, %.0f ran it\n",
                  end_of(&fit->came), fit->came.x[fit->came.count - 1], end_of(&fit->ran));
    (void)fprintf(log, "arrivals  a line of %u points, at most %.2f points off, at second %.1f\n",
                  fit->knot_count, fit->arrivals_off, fit->arrivals_off_s);
    if (fit->ran.count > 0 && fit->delayed) {
        (void)fprintf(
            log, "delay     network:delay %u @ %.1f%%, at most %.2f points off (%.2f without)\n",
            fit->delay_ms, fit->delay_ppm / 1e4, fit->delay_off, fit->plain_off);
    } else if (fit->ran.count > 0) {
        (void)fprintf(log, "delay     none: at most %.2f points off, and a delay mends nothing\n",
                      fit->plain_off);
    } else {
        (void)fprintf(log, "delay     not fitted: no curve says when they ran it\n");
    }
    for (uint32_t i = 0; fit->ran.count > 0 && i < SIM_FIT_SHARES; i++) {
        (void)fprintf(log, "  %2.0f %% had run it at %10.2f s, fitted %10.2f s (%+.2f)\n",
                      sim_fit_shares[i] * 100, fit->given_s[i], fit->fitted_s[i],
                      fit->fitted_s[i] - fit->given_s[i]);
    }
    if (fit->checked_off >= 0) {
        (void)fprintf(log, "played    at most %.2f points of the fleet off (%.2f may be)\n",
                      fit->checked_off, fit->within);
    }
    (void)fprintf(log, "%s\n", fit->out);
}
