// The command that makes a population file. fleet_main.c calls it on the main thread. Devices are
// listed by their ids, which are drawn by chance: so the first N of them are a fair sample of all.
// The file appears whole, or not at all.
#include "harvest/harvest.h"

#include "base/alloc.h"
#include "base/os/gateway_note.h"
#include "base/os/output_file.h"
#include "base/os/private_file.h"
#include "harvest/device_counts.h"
#include "harvest/gateway_source.h"
#include "model/sim_exit.h"
#include "model/sim_options.h"
#include "model/sim_url.h"
#include "words/command_words.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES_MAX  (4u * 1024 * 1024)
#define DEVICES_DEFAULT 1000000u

enum key { KEY_FROM = 1000, KEY_OUT, KEY_TOKEN_FILE, KEY_MOST };

struct harvest {
    const char *from;
    const char *out;
    const char *token_file;
    uint64_t most;
    char token[SIM_TOKEN_TEXT_MAX];
};

static const struct argp_option table[] = {
    {"from-gateway", KEY_FROM, "URL|DIR", 0,
     "A gateway that runs, or the data folder of one that does not", 0},
    {"out", KEY_OUT, "FILE", 0, "Where the population goes (population.conf)", 0},
    {"token-file", KEY_TOKEN_FILE, "FILE", 0,
     "Operator's token (role viewer), on a gateway that asks for one", 0},
    {"at-most", KEY_MOST, "N", 0, "Devices that are counted (1000000): a fair sample", 0},
    {0, 0, 0, 0, 0, 0},
};

static error_t on_option(int key, char *value, struct argp_state *state)
{
    struct harvest *harvest = state->input;
    switch (key) {
    case KEY_FROM:
        harvest->from = value;
        return 0;
    case KEY_OUT:
        harvest->out = value;
        return 0;
    case KEY_TOKEN_FILE:
        harvest->token_file = value;
        return 0;
    case KEY_MOST:
        if (base_str_u64(base_str_of(value), &harvest->most) != BASE_OK || harvest->most == 0) {
            argp_error(state, "--at-most %.60s: a number above 0 is expected", value);
        }
        return 0;
    case ARGP_KEY_END:
        if (harvest->from == NULL) {
            argp_error(state, "--from-gateway is needed");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// The token that was named, else one that a gateway of this user on this machine left word of.
static enum base_status token_read(struct harvest *harvest, const char *host, uint16_t port,
                                   struct base_error *error)
{
    struct base_gateway_found found;
    const struct base_gateway_target target = {.host = base_str_of(host), .port = port};
    if (harvest->token_file != NULL) {
        return base_private_line(harvest->token_file, false, harvest->token, sizeof(harvest->token),
                                 error);
    }
    char address[SIM_TEXT_MAX + 8];
    (void)snprintf(address, sizeof(address), "%s:%u", host, port);
    if (base_gateway_note_find(&target, &found, NULL) == BASE_OK &&
        strcmp(found.address, address) == 0 && strlen(found.token) < sizeof(harvest->token)) {
        memcpy(harvest->token, found.token, strlen(found.token) + 1);
    }
    return BASE_OK;
}

static enum base_status source_open(struct harvest *harvest, struct sim_source **out_source,
                                    struct base_error *error)
{
    char host[SIM_TEXT_MAX];
    struct sim_source_place place = {.host = host};
    if (strstr(harvest->from, "://") == NULL) {
        return sim_source_folder(harvest->from, out_source, error);
    }
    if (sim_url_parse(base_str_of(harvest->from), host, &place.port, &place.tls) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "--from-gateway %.80s: http://HOST:PORT or https://HOST:PORT is "
                              "expected",
                              harvest->from);
    }
    BASE_TRY(token_read(harvest, host, place.port, error));
    place.token = base_str_of(harvest->token);
    return sim_source_url(&place, out_source, error);
}

static enum base_status count_all(const struct harvest *harvest, struct sim_source *source,
                                  struct sim_device_counts *counts, struct base_error *error)
{
    struct base_buffer page;
    char next[SIM_PAGE_KEY_MAX] = "";
    enum base_status status = BASE_OK;
    base_buffer_init(&page, base_alloc_heap(), PAGE_BYTES_MAX);
    do {
        char path[80];
        (void)snprintf(path, sizeof(path), "/api/v1/devices?limit=500%s%s",
                       next[0] != '\0' ? "&after=" : "", next);
        int answer = sim_source_ask(source, path, &page);
        if (answer == 0) {
            status = base_error_set(error, BASE_ERR_CLOSED, "%.80s: no answer", harvest->from);
        } else if (answer != 200) {
            status = base_error_set(error, BASE_ERR_IO, "%.80s: status %d when asked for devices%s",
                                    harvest->from, answer,
                                    answer == 401 || answer == 403 ? " (--token-file)" : "");
        } else {
            status = sim_device_counts_take(counts, (const char *)page.data, page.size,
                                            harvest->most, next);
            if (status != BASE_OK) {
                (void)base_error_set(error, status, "%.80s: the list of devices: %s", harvest->from,
                                     base_status_text(status));
            }
        }
    } while (status == BASE_OK && next[0] != '\0' &&
             sim_device_counts_devices(counts) < harvest->most);
    base_buffer_done(&page);
    if (status == BASE_OK && sim_device_counts_devices(counts) == 0) {
        status =
            base_error_set(error, BASE_ERR_NOT_FOUND, "%.80s: it knows no device", harvest->from);
    }
    return status;
}

static enum base_status make_file(struct harvest *harvest, FILE *log, struct base_error *error)
{
    struct sim_source *source = NULL;
    struct sim_device_counts *counts = NULL;
    struct base_output_file out;
    enum base_status status = source_open(harvest, &source, error);
    if (status != BASE_OK) { // a folder that is not there is another thing than no device in it
        return status == BASE_ERR_NOT_FOUND ? BASE_ERR_IO : status;
    }
    status = sim_device_counts_new(&counts);
    if (status == BASE_OK) {
        status = count_all(harvest, source, counts, error);
    }
    if (status == BASE_OK) {
        status = base_output_open(&out, harvest->out, error);
    }
    if (status == BASE_OK) {
        status = base_output_close(&out, sim_device_counts_write(counts, out.file), error);
    }
    if (status == BASE_OK) {
        (void)fprintf(log, "%s: the population of %llu devices\n", harvest->out,
                      (unsigned long long)sim_device_counts_devices(counts));
    }
    sim_device_counts_free(counts);
    sim_source_free(source);
    return status;
}

static int exit_of(enum base_status status)
{
    switch (status) {
    case BASE_OK:
        return SIM_EXIT_OK;
    case BASE_ERR_INVALID:
        return SIM_EXIT_USAGE;
    case BASE_ERR_NOT_FOUND:
        return SIM_EXIT_NOBODY_FITS;
    case BASE_ERR_CLOSED:
        return SIM_EXIT_NO_GATEWAY;
    default:
        return SIM_EXIT_LOCAL;
    }
}

int sim_harvest_main(int argc, char **argv, FILE *log)
{
    static char name[] = "walle-fleet-sim population";
    struct harvest harvest = {.out = "population.conf", .most = DEVICES_DEFAULT};
    struct base_error error = {0};
    const struct argp parser = {
        table,
        on_option,
        NULL,
        "A file for --population of run and simulate, made from the attributes of a gateway's "
        "devices.\vExit status: 0 written; 2 usage, 4 files or memory, 6 it knows no device, 7 no "
        "gateway answered.",
        NULL,
        NULL,
        NULL};
    argv[0] = name;
    if (!sim_command_read(&parser, 0, argc, argv, &harvest)) {
        return SIM_EXIT_USAGE;
    }
    enum base_status status = make_file(&harvest, log, &error);
    if (status != BASE_OK) {
        (void)fprintf(stderr, "walle-fleet-sim population: %s\n",
                      error.text[0] != '\0' ? error.text : base_status_text(status));
    }
    return exit_of(status);
}
