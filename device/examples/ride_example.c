// app_example.c and more: an app that says what is wrong with its arguments and that nobody
// answers. With PATH it asks its service behind the gateway for that with each tap, and the
// runtime's check-ins and reports ride on these requests.
//
//   WALLE_ENROLL_TOKEN=... ride_example HOST PORT CA.pem FOLDER RELEASE_KEY [PATH]
#include "posix/posix_enroll.h"
#include "posix/posix_port.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_result(void *app, struct base_str task, const struct dev_task_end *end)
{
    struct base_str text = end->outcome == WIRE_OUTCOME_RAN ? end->result : end->detail;
    (void)app;
    printf("%.*s %s %.*s\n", (int)task.size, task.data, wire_outcome_name(end->outcome),
           (int)text.size, text.data);
    fflush(stdout);
}

static void on_answer(void *app, int status, const uint8_t *body, size_t size)
{
    (void)app;
    printf("service %d %.*s\n", status, (int)size, body != NULL ? (const char *)body : "");
    fflush(stdout);
}

static struct posix_business question = {.on_answer = on_answer}; // its path: of the command line

static void on_tap(evutil_socket_t input, short what, void *port)
{
    char item[DEV_EVENT_ITEM_MAX + 1] = "";
    (void)what;
    if (read(input, item, DEV_EVENT_ITEM_MAX) <= 0) { // a terminal gives a line
        exit(EXIT_SUCCESS);                           // what is stored survives that
    }
    struct base_str id = {item, strcspn(item, "\n")};
    struct dev_recording tap = {.kind = DEV_EVENT_CLICK, .page = BASE_STR("home"), .item = id};
    (void)posix_record(posix_port_recorder(port), &tap);
    if (question.path.size > 0 && posix_business(port, &question) != BASE_OK) {
        fprintf(stderr, "the service is not asked: too much at once, or no way to it\n");
    }
}

// Says once that nobody answers; the runtime asks again by itself.
static void on_tick(void *app, struct dev_runtime *runtime)
{
    static bool said;
    const struct posix_options *options = app;
    struct dev_stats stats;
    dev_stats(runtime, &stats);
    if (stats.failed_requests > 0 && stats.checkins == 0 && !said) {
        fprintf(stderr, "ride_example: no answer of %s:%u yet\n", options->host.data,
                options->port);
        said = true;
    }
}

static int wrong(const char *what, const char *argument)
{
    fprintf(stderr,
            "ride_example: %s%s\nusage: ride_example HOST PORT CA.pem FOLDER RELEASE_KEY [PATH]\n",
            what, argument);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct base_log log;
    struct base_error error = {0};
    struct posix_credential credential;
    struct posix_port *port = NULL;
    struct event_base *base = event_base_new();
    struct posix_options options = {.tls = true,
                                    .on_result = on_result,
                                    .on_tick = on_tick,
                                    .app = &options,
                                    .log = &log,
                                    .config = {.trusted_key_count = 1}};
    uint64_t number = 0;
    if (argc < 6 || argc > 7) {
        return wrong("it takes five or six arguments", "");
    }
    if (base_str_u64(base_str_of(argv[2]), &number) != BASE_OK || number == 0 || number > 65535) {
        return wrong("no port: ", argv[2]);
    }
    if (base_hex_decode(base_str_of(argv[5]), options.config.trusted_keys[0],
                        WIRE_PUBLIC_KEY_BYTES) != BASE_OK) {
        return wrong("no public key of 64 hex digits: ", argv[5]);
    }
    base_log_stderr(&log, BASE_LOG_WARN);
    options.host = base_str_of(argv[1]);
    options.port = (uint16_t)number;
    options.ca_pem_path = argv[3];
    options.dir = argv[4];
    question.path = base_str_of(argc == 7 ? argv[6] : "");
    options.config.ride_wait_s = argc == 7 ? 60 : 0;
    enum base_status status = posix_enrolled(
        base, &options, base_str_of(getenv("WALLE_ENROLL_TOKEN")), &credential, &error);
    if (status == BASE_OK) {
        options.credential = base_str_of(credential.text);
        options.config.device_id = credential.device_id;
        status = posix_port_new(base, &options, &port, &error);
    }
    if (status == BASE_OK) {
        event_add(event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_tap, port), NULL);
        event_base_dispatch(base);
    }
    fprintf(stderr, "ride_example: %s\n", error.text);
    return EXIT_FAILURE;
}
