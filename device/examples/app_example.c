// An app with the device runtime on Linux: it enrols once, brings and runs the tasks that are
// released to it, and records what its user taps on: a line of standard input is an item's id.
//   WALLE_ENROLL_TOKEN=... app_example HOST PORT CA.pem FOLDER RELEASE_KEY
#include "posix/posix_enroll.h"

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

static void on_tap(evutil_socket_t input, short what, void *port)
{
    char item[DEV_EVENT_ITEM_MAX + 1] = "";
    if (what != EV_READ || read(input, item, DEV_EVENT_ITEM_MAX) <= 0) { // a terminal gives a line
        exit(EXIT_SUCCESS); // what is stored survives that
    }
    struct base_str id = {item, strcspn(item, "\n")};
    struct dev_recording tap = {.kind = DEV_EVENT_CLICK, .page = BASE_STR("home"), .item = id};
    (void)posix_record(posix_port_recorder((struct posix_port *)port), &tap);
}

int main(int argc, char **argv)
{
    struct base_error error = {.text = "needs HOST PORT CA.pem FOLDER RELEASE_KEY, tty or pipe"};
    struct posix_credential credential;
    struct posix_port *port = NULL;
    struct posix_options options = {
        .tls = true, .config = {.trusted_key_count = 1}, .on_result = on_result};
    struct event_base *base = event_base_new();
    struct base_str token = base_str_of(getenv("WALLE_ENROLL_TOKEN"));
    uint64_t number = 0; // of the port
    if (argc == 6 && base_str_u64(base_str_of(argv[2]), &number) == BASE_OK &&
        base_hex_decode(base_str_of(argv[5]), options.config.trusted_keys[0],
                        WIRE_PUBLIC_KEY_BYTES) == BASE_OK) {
        options.host = base_str_of(argv[1]);
        options.port = (uint16_t)number;
        options.ca_pem_path = argv[3];
        options.dir = argv[4];
        if (posix_enrolled(base, &options, token, &credential, &error) == BASE_OK) {
            options.credential = base_str_of(credential.text);
            options.config.device_id = credential.device_id;
            if (posix_port_new(base, &options, &port, &error) == BASE_OK &&
                event_add(event_new(base, 0, EV_READ | EV_PERSIST, on_tap, port), NULL) == 0) {
                event_base_dispatch(base);
            }
        }
    }
    fprintf(stderr, "app_example: %s\n", error.text);
    return EXIT_FAILURE;
}
