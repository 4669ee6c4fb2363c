// Peers that send many requests ahead, in HTTP/1.1, on a worker driven turn by turn: who comes
// meanwhile is answered first, those ahead take turns, and a peer that leaves answers unread is not
// read. Order and counts; no times.
#include "http/loop/turns.h"

#include "stream_rig.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEERS 6
#define AHEAD 200u
#define GET   "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"

struct peer {
    int fd;
    int served_fd; // the gateway's end
    uint32_t answers;
};

static struct peer peers[PEERS];

static void connect_peer(struct stream_rig *rig, struct peer *peer)
{
    static const struct gw_conn_origin origin = {.peer = {{2}}, .loopback = true};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    gw_http_worker_now(rig->worker);
    assert_int_equal(gw_peer_table_take(rig->peers, &origin.peer, 8, 8), BASE_OK);
    assert_int_equal(gw_conn_new(rig->worker, ends[0], false, &origin), BASE_OK);
    *peer = (struct peer){.fd = ends[1], .served_fd = ends[0]};
}

static void send_ahead(const struct peer *peer, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(send(peer->fd, GET, strlen(GET), MSG_NOSIGNAL), strlen(GET));
    }
}

// One turn of the loop.
static void once(struct stream_rig *rig)
{
    assert_true(event_base_loop(rig->worker->base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

// Reads what came; returns how many answers began in it.
static uint32_t read_answers(struct peer *peer)
{
    static char text[1 << 20];
    ssize_t size = recv(peer->fd, text, sizeof(text) - 1, 0);
    uint32_t count = 0;
    assert_true(size > 0 || (size < 0 && errno == EAGAIN));
    text[size > 0 ? size : 0] = '\0';
    for (const char *at = text; (at = strstr(at, "HTTP/1.1 200 ")) != NULL; at++) {
        count++;
    }
    peer->answers += count;
    return count;
}

static uint32_t read_all(void)
{
    uint32_t count = 0;
    for (int i = 0; i < PEERS; i++) {
        count += read_answers(&peers[i]);
    }
    return count;
}

static void disconnect(void)
{
    for (int i = 0; i < PEERS; i++) {
        close(peers[i].fd);
    }
}

static void who_comes_meanwhile_is_answered_first(void **state)
{
    struct stream_rig *rig = *state;
    for (int i = 0; i < PEERS; i++) {
        connect_peer(rig, &peers[i]);
        send_ahead(&peers[i], AHEAD);
    }
    once(rig);
    uint32_t answers = read_all();
    for (uint32_t stream = 1; stream < 40; stream += 2) {
        // POST /checkin by a client of HTTP/2, on a connection that is open.
        static const uint8_t block[] = "\x83\x86\x41\1x\x44\x0b/v1/checkin";
        uint8_t head[FRAME_HEAD] = {
            0, 0, sizeof(block) - 1, NGHTTP2_HEADERS, END_STREAM | END_HEADERS, 0,
            0, 0, (uint8_t)stream};
        assert_int_equal(send(rig->client, head, sizeof(head), 0), sizeof(head));
        assert_int_equal(send(rig->client, block, sizeof(block) - 1, 0), sizeof(block) - 1);
        once(rig);
        ssize_t size =
            read(rig->client, rig->seen + rig->seen_bytes, sizeof(rig->seen) - rig->seen_bytes);
        rig->seen_bytes += size > 0 ? (size_t)size : 0;
        assert_int_equal(stream_rig_frames(rig, NGHTTP2_HEADERS, stream), 1);
        uint32_t meanwhile = read_all();
        answers += meanwhile;
        assert_in_range(meanwhile, 1, GW_TURNS_PER_LOOP_MAX);
    }
    assert_true(answers < PEERS * AHEAD); // they still have work
    disconnect();
}

static void those_ahead_take_turns(void **state)
{
    struct stream_rig *rig = *state;
    for (int i = 0; i < PEERS; i++) {
        connect_peer(rig, &peers[i]);
        send_ahead(&peers[i], AHEAD);
    }
    uint32_t answers = 0;
    for (uint32_t loops = 0; answers < PEERS * AHEAD; loops++) {
        uint32_t least = AHEAD;
        uint32_t most = 0;
        assert_true(loops < PEERS * AHEAD);
        once(rig);
        answers += read_all();
        for (int i = 0; i < PEERS; i++) {
            least = peers[i].answers < least ? peers[i].answers : least;
            most = peers[i].answers > most ? peers[i].answers : most;
        }
        assert_true(most - least <= 1);
    }
    assert_null(rig->worker->turns.first);
    disconnect();
}

static int unread(const struct peer *peer)
{
    int bytes = 0;
    assert_int_equal(ioctl(peer->served_fd, FIONREAD, &bytes), 0);
    return bytes;
}

static void who_leaves_answers_unread_is_not_read(void **state)
{
    struct stream_rig *rig = *state;
    struct gw_conn *conn = NULL;
    connect_peer(rig, &peers[0]);
    for (conn = rig->worker->conns; conn->fd != peers[0].served_fd; conn = conn->next) {
    }
    for (uint32_t sent = 0; conn->rest == NULL; sent++) {
        assert_true(sent < 100000); // its socket is full before that
        send_ahead(&peers[0], 1);
        once(rig);
        once(rig);
    }
    for (int i = 0; i < 10; i++) {
        once(rig);
    }
    assert_int_equal(unread(&peers[0]), 0);
    uint64_t answered = rig->worker->stats->bytes_out;
    send_ahead(&peers[0], 10);
    for (int i = 0; i < 10; i++) {
        once(rig);
    }
    assert_int_equal(unread(&peers[0]), 10 * strlen(GET));
    assert_int_equal(rig->worker->stats->bytes_out, answered);
    for (int i = 0; i < 100; i++) { // it reads, and is read
        (void)read_answers(&peers[0]);
        once(rig);
    }
    assert_int_equal(unread(&peers[0]), 0);
    assert_null(rig->worker->turns.first);
    close(peers[0].fd);
}

static void who_goes_leaves_the_row(void **state)
{
    struct stream_rig *rig = *state;
    for (int i = 0; i < PEERS; i++) {
        connect_peer(rig, &peers[i]);
        send_ahead(&peers[i], AHEAD);
    }
    once(rig);
    assert_non_null(rig->worker->turns.first);
    disconnect(); // and the rig looks whether anything is left
}

// ---- The row alone

static struct gw_turns row;
static struct gw_turn turns[2 * GW_TURNS_PER_LOOP_MAX];
static size_t order[4 * GW_TURNS_PER_LOOP_MAX];
static size_t fired;

static void note(void *ctx, struct gw_turn *turn)
{
    assert_null(ctx);
    assert_null(turn->prev);
    order[fired++] = (size_t)(turn - turns);
    if (turn == &turns[0] && fired == 1) {
        gw_turns_add(&row, turn);         // behind the others
        gw_turns_remove(&row, &turns[2]); // which is not there any more
    }
}

static void the_row_keeps_its_order(void **state)
{
    (void)state;
    const size_t count = TEST_COUNT(turns);
    gw_turns_init(&row);
    assert_false(gw_turns_run(&row, note, NULL));
    for (size_t i = 0; i < count; i++) {
        gw_turns_add(&row, &turns[i]);
        gw_turns_add(&row, &turns[0]); // it has its place already
    }
    gw_turns_remove(&row, &turns[count - 1]); // the last one
    gw_turns_remove(&row, &turns[count - 1]);
    assert_true(gw_turns_run(&row, note, NULL));
    assert_int_equal(fired, GW_TURNS_PER_LOOP_MAX);
    assert_false(gw_turns_run(&row, note, NULL));
    assert_int_equal(fired, count - 1);
    for (size_t i = 0, next = 0; i < fired - 1; i++, next++) {
        next += next == 2;
        assert_int_equal(order[i], next);
    }
    assert_int_equal(order[fired - 1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_comes_meanwhile_is_answered_first, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(those_ahead_take_turns, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(who_leaves_answers_unread_is_not_read, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test_setup_teardown(who_goes_leaves_the_row, stream_rig_set_up,
                                        stream_rig_tear_down),
        cmocka_unit_test(the_row_keeps_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
