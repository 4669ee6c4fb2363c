// walle-load: an HTTP/2 load generator for the gateway and its peers. One thread; closed loop
// (every stream slot sends its next request when its reply is complete) or, with --rate, open loop.
// Prints one JSON line.
#include "base/os/process_start.h"
#include "base/clock.h"
#include "load_conn.h"

#include <arpa/inet.h>
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define BUFFER_BYTES    (256 * 1024)
#define EVENTS_MAX      512
#define CONNECTING_MAX  64 // at once, so that no backlog overflows
#define US_PER_S        1000000u
#define CONNECTIONS_MAX 60000u

struct load_run {
    struct load_plan plan;
    struct load_requests requests;
    struct load_totals totals;
    SSL_CTX *tls;
    struct load_conn *conns;
    uint32_t opened;
    uint32_t ready; // connections that have heard from the server
    uint64_t next_request;
    uint64_t paced; // requests whose time has come, with --rate
    uint64_t paced_from_us;
    uint32_t paced_conn; // the connection whose turn it is
    int epoll_fd;
    uint8_t *buffer;
    uint64_t count_from_us;
    uint64_t ended_us;
    bool input_ended;
};

const char *argp_program_version = "walle-load 0.1.0";

static const struct argp_option options[] = {
    {"connections", 'c', "N", 0, "connections (default 50)", 0},
    {"streams", 'm', "N", 0, "streams at once on each (default 20)", 0},
    {"requests", 'n', "N", 0, "requests in all; default: until the time is over", 0},
    {"seconds", 't', "S", 0, "counted time (default 5)", 0},
    {"warm-up", 'w', "S", 0, "time before that (default 1)", 0},
    {"method", 'X', "METHOD", 0, "default POST", 0},
    {"devices", 'D', "N", 0, "walle-device of N devices in turn", 0},
    {"first-device", 'F', "ID", 0, "the first of them (default 1)", 0},
    {"profiles", 'P', "FILE", 0, "walle-profile values, one a line, in turn", 0},
    {"credentials", 'C', "FILE", 0,
     "lines of a device's id and its credential, a request each in turn; in place of --devices", 0},
    {"rate", 'r', "N", 0,
     "requests a second in all, at even times, whether or not replies come; latency is from the "
     "time meant",
     0},
    {"idle", 'i', NULL, 0, "one request a connection, then wait for the end of standard input", 0},
    {"hints", 'h' + 256, NULL, 0, "open hint streams, print `ready`, count hints until 99 % came",
     0},
    {0},
};

static uint64_t number(struct argp_state *state, const char *text, uint64_t max)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK || value > max) {
        argp_error(state, "'%s' is not a number up to %llu", text, (unsigned long long)max);
    }
    return value;
}

// "http://HOST:PORT/PATH"; HOST numeric.
static void parse_url(struct argp_state *state, struct load_plan *plan, char *url)
{
    bool tls = strncmp(url, "https://", 8) == 0;
    if (!tls && strncmp(url, "http://", 7) != 0) {
        argp_error(state, "'%s' is not http://HOST:PORT/PATH", url);
        return;
    }
    char *host = strdup(url + (tls ? 8 : 7));
    char *slash = host != NULL ? strchr(host, '/') : NULL;
    char *path = slash != NULL ? strdup(slash) : strdup("/");
    if (slash != NULL) {
        *slash = '\0';
    }
    char *authority = host != NULL ? strdup(host) : NULL;
    char *colon = host != NULL ? strrchr(host, ':') : NULL;
    if (colon == NULL || authority == NULL || path == NULL) {
        argp_error(state, "'%s' has no port", url);
        return;
    }
    *colon = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
        argp_error(state, "'%s' cannot be resolved", host);
        return;
    }
    memcpy(&plan->address, found->ai_addr, found->ai_addrlen);
    plan->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    free(host);
    plan->tls = tls;
    plan->authority = authority;
    plan->path = path;
}

static error_t parse_option(int key, char *value, struct argp_state *state)
{
    struct load_plan *plan = state->input;
    switch (key) {
    case 'c':
        plan->connections = (uint32_t)number(state, value, CONNECTIONS_MAX);
        return 0;
    case 'm':
        plan->streams = (uint32_t)number(state, value, LOAD_SLOTS_MAX);
        return 0;
    case 'n':
        plan->requests = number(state, value, UINT64_MAX);
        return 0;
    case 't':
        plan->seconds = (double)number(state, value, 3600);
        return 0;
    case 'w':
        plan->warm_up_s = (double)number(state, value, 3600);
        return 0;
    case 'X':
        plan->method = value;
        return 0;
    case 'D':
        plan->devices = number(state, value, UINT64_MAX);
        return 0;
    case 'F':
        plan->first_device = number(state, value, UINT64_MAX);
        return 0;
    case 'P':
        plan->profiles_path = value;
        return 0;
    case 'C':
        plan->credentials_path = value;
        return 0;
    case 'r':
        plan->rate = number(state, value, US_PER_S);
        return 0;
    case 'i':
        plan->mode = LOAD_IDLE;
        return 0;
    case 'h' + 256:
        plan->mode = LOAD_HINTS;
        return 0;
    case ARGP_KEY_ARG:
        parse_url(state, plan, value);
        return 0;
    case ARGP_KEY_END:
        if (plan->path == NULL || plan->connections == 0 || plan->streams == 0) {
            argp_error(state, "a URL, connections and streams are needed");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool watch(struct load_run *run, struct load_conn *conn, int operation)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = conn}};
    if (!conn->connected || load_conn_wants_write(conn)) {
        event.events |= EPOLLOUT;
    }
    return epoll_ctl(run->epoll_fd, operation, conn->fd, &event) == 0;
}

static void lose(struct load_run *run, struct load_conn *conn)
{
    if (!conn->reported) {
        conn->reported = true;
        run->totals.failed++;
    }
    if (conn->fd >= 0) {
        (void)epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, conn->fd, NULL);
        load_conn_close(conn);
    }
}

static void open_more(struct load_run *run)
{
    while (run->opened < run->plan.connections &&
           run->opened - run->ready - run->totals.failed < CONNECTING_MAX) {
        struct load_conn *conn = &run->conns[run->opened++];
        conn->plan = &run->plan;
        conn->requests = &run->requests;
        conn->totals = &run->totals;
        conn->next_request = &run->next_request;
        conn->fd = -1;
        if (load_conn_open(conn, run->tls) != BASE_OK || !watch(run, conn, EPOLL_CTL_ADD)) {
            lose(run, conn);
        }
    }
}

static void step(struct load_run *run, struct load_conn *conn, uint64_t now_us)
{
    if (conn->fd < 0) {
        return;
    }
    bool was_connected = conn->connected;
    bool waited = !was_connected || load_conn_wants_write(conn);
    bool all_open = run->plan.mode != LOAD_REQUESTS || run->opened == run->plan.connections;
    load_conn_step(conn, run->buffer, BUFFER_BYTES, all_open && run->plan.rate == 0, now_us);
    run->ready += !was_connected && conn->connected;
    bool waits = !conn->connected || load_conn_wants_write(conn);
    if (conn->failed || (waits != waited && !watch(run, conn, EPOLL_CTL_MOD))) {
        lose(run, conn);
    }
}

// The next connection that has a slot; NULL when none has.
static struct load_conn *start_somewhere(struct load_run *run, uint64_t intended_us)
{
    for (uint32_t i = 0; i < run->opened; i++) {
        struct load_conn *conn = &run->conns[run->paced_conn++ % run->opened];
        if (conn->fd >= 0 && conn->connected && load_conn_start(conn, intended_us)) {
            return conn;
        }
    }
    return NULL;
}

// With --rate: begins the requests whose time has come. What finds no slot is begun later, and its
// wait counts.
static void pace(struct load_run *run, uint64_t now_us)
{
    const uint64_t rate = run->plan.rate;
    if (rate == 0 || run->opened < run->plan.connections) {
        return;
    }
    if (run->paced_from_us == 0) {
        run->paced_from_us = now_us;
    }
    for (;;) {
        uint64_t due_us = run->paced_from_us + run->paced * US_PER_S / rate;
        struct load_conn *conn = due_us <= now_us ? start_somewhere(run, due_us) : NULL;
        if (conn == NULL) {
            return;
        }
        run->paced++;
        step(run, conn, now_us);
    }
}

// Has the run reached its end?
static bool is_over(struct load_run *run, uint64_t now_us)
{
    struct load_totals *totals = &run->totals;
    if (totals->failed == run->plan.connections) {
        return true;
    }
    if (run->plan.mode == LOAD_HINTS) {
        return totals->hints * 100 >= totals->streams * 99 && totals->hints > 0;
    }
    if (run->plan.mode == LOAD_IDLE) {
        return run->input_ended;
    }
    if (run->plan.requests > 0) {
        return totals->done + totals->failed >= run->plan.requests;
    }
    return totals->counting &&
           now_us >= run->count_from_us + (uint64_t)(run->plan.seconds * US_PER_S);
}

static bool all_answered(const struct load_run *run)
{
    const struct load_totals *totals = &run->totals;
    return run->plan.mode == LOAD_HINTS
               ? totals->streams >= (uint64_t)run->plan.connections * run->plan.streams
               : totals->done + totals->failed >= run->plan.connections;
}

static void say_ready(struct load_run *run, bool *said)
{
    if (!*said && run->plan.mode != LOAD_REQUESTS && all_answered(run)) {
        *said = true;
        printf("ready\n");
        (void)fflush(stdout);
    }
}

// Standard input's end stops idle and hint runs; it is not in epoll when it is a file.
static void look_at_input(struct load_run *run)
{
    char byte;
    if (run->plan.mode != LOAD_REQUESTS && read(STDIN_FILENO, &byte, 1) == 0) {
        run->input_ended = true;
    }
}

static void loop(struct load_run *run)
{
    struct epoll_event events[EVENTS_MAX];
    bool said_ready = false;
    uint64_t now_us = base_clock_mono_us();
    uint64_t warm_us = (uint64_t)(run->plan.warm_up_s * US_PER_S);
    uint64_t first_us = 0;
    while (!is_over(run, now_us) && !(run->input_ended && run->plan.mode == LOAD_HINTS)) {
        open_more(run);
        pace(run, now_us);
        int count = epoll_wait(run->epoll_fd, events, EVENTS_MAX, run->plan.rate > 0 ? 1 : 50);
        now_us = base_clock_mono_us();
        for (int i = 0; i < count; i++) {
            step(run, events[i].data.ptr, now_us);
        }
        if (first_us == 0 && run->opened == run->plan.connections) {
            first_us = now_us;
            for (uint32_t i = 0; i < run->opened; i++) {
                step(run, &run->conns[i], now_us); // those that waited for the others
            }
        }
        if (!run->totals.counting && first_us != 0 && now_us >= first_us + warm_us) {
            run->totals.counting = true;
            run->count_from_us = now_us;
        }
        say_ready(run, &said_ready);
        if (said_ready || count == 0) {
            look_at_input(run);
        }
    }
    run->ended_us = now_us;
}

// Requests that were due by the end and have no reply: begun, or (with --rate) not even that.
static uint64_t unanswered(const struct load_run *run)
{
    uint64_t open = 0;
    for (uint32_t i = 0; i < run->opened; i++) {
        open += run->conns[i].open;
    }
    if (run->plan.rate > 0 && run->paced_from_us > 0) {
        uint64_t due = (run->ended_us - run->paced_from_us) * run->plan.rate / US_PER_S;
        open += due > run->paced ? due - run->paced : 0;
    }
    return open;
}

static void report(const struct load_run *run)
{
    const struct load_totals *totals = &run->totals;
    double seconds = (double)(run->ended_us - run->count_from_us) / US_PER_S;
    printf("{\"requests\":%llu,\"seconds\":%.3f,\"rate\":%.0f,\"status_204\":%llu,"
           "\"status_200\":%llu,\"status_other\":%llu,\"resets\":%llu,\"connections_lost\":%u,"
           "\"body_bytes\":%llu,\"hint_streams\":%llu,\"hints\":%llu,\"p50_us\":%llu,"
           "\"p99_us\":%llu,\"max_us\":%llu,\"unanswered\":%llu}\n",
           (unsigned long long)totals->done, seconds,
           seconds > 0 ? (double)totals->done / seconds : 0.0,
           (unsigned long long)totals->status_204, (unsigned long long)totals->status_200,
           (unsigned long long)totals->status_other, (unsigned long long)totals->resets,
           totals->failed, (unsigned long long)totals->body_bytes,
           (unsigned long long)totals->streams, (unsigned long long)totals->hints,
           (unsigned long long)base_hist_quantile(&totals->latency_us, 0.5),
           (unsigned long long)base_hist_quantile(&totals->latency_us, 0.99),
           (unsigned long long)(totals->latency_us.count > 0 ? totals->latency_us.max : 0),
           (unsigned long long)unanswered(run));
}

static bool set_up(struct load_run *run)
{
    struct base_error error = {0};
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (load_requests_make(&run->plan, &run->requests, &error) != BASE_OK) {
        fprintf(stderr, "%s\n", error.text);
        return false;
    }
    if (run->plan.tls) {
        static const unsigned char alpn[] = {2, 'h', '2'};
        run->tls = SSL_CTX_new(TLS_client_method());
        if (run->tls == NULL || SSL_CTX_set_alpn_protos(run->tls, alpn, sizeof(alpn)) != 0) {
            return false;
        }
        SSL_CTX_set_mode(run->tls,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    base_hist_init(&run->totals.latency_us);
    run->conns = calloc(run->plan.connections, sizeof(*run->conns));
    run->buffer = malloc(BUFFER_BYTES);
    run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (run->plan.mode != LOAD_REQUESTS) {
        run->totals.counting = true;
        run->count_from_us = base_clock_mono_us();
        (void)fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
    }
    return run->conns != NULL && run->buffer != NULL && run->epoll_fd >= 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse_option, "URL", "Loads an HTTP/2 server and prints one JSON line.", 0, 0, 0};
    static struct load_run run;
    base_process_start(EXIT_FAILURE);
    run.plan = (struct load_plan){.connections = 50,
                                  .streams = 20,
                                  .seconds = 5,
                                  .warm_up_s = 1,
                                  .method = "POST",
                                  .first_device = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, &run.plan) != 0 || !set_up(&run)) {
        return EXIT_FAILURE;
    }
    if (run.plan.requests > 0) { // a given number is counted from the first
        run.totals.counting = true;
        run.count_from_us = base_clock_mono_us();
    }
    loop(&run);
    report(&run);
    return run.totals.failed > 0 && run.plan.mode == LOAD_REQUESTS ? EXIT_FAILURE : EXIT_SUCCESS;
}
