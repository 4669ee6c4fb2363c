// The table of routes: every row is found by its path, says what of a body is wanted, refuses other
// methods, and asks whoever shows nothing for what the row says it asks for.
#include "core_rig.h"
#include "test_kit.h"
#include "svc/access/head_check.h"
#include "svc/access/operators.h"
#include "svc/core_worker.h"
#include "svc/reply.h"
#include "svc/route.h"

#define DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void no_page(struct gw_exchange *exchange)
{
    exchange->reply.status = 200;
}

static void answer_ddi(struct gw_worker *worker, struct gw_exchange *exchange)
{
    (void)worker;
    exchange->reply.status = 401; // the secret is gateway/ddi's own affair
    exchange->finish(exchange);
}

static bool head_ddi(struct gw_worker *worker, struct gw_exchange *exchange)
{
    (void)worker;
    (void)exchange;
    return true;
}

static void answer_infer(void *self, struct gw_worker *worker, struct gw_exchange *exchange)
{
    struct gw_head head = {0};
    (void)self;
    if (exchange->route->who != GW_FOR_CALLERS || gw_infer_admit(worker, exchange, &head)) {
        gw_reply_status(exchange, 200);
    }
    exchange->finish(exchange);
}

// With all that may be set into the core.
static void set_all(struct gw_core *core, enum gw_metrics_access access)
{
    const struct gw_infer_seam seam = {
        .self = core, .access = access, .handle = answer_infer, .grpc = answer_infer};
    gw_core_set_ddi(core, answer_ddi, head_ddi);
    gw_core_set_infer(core, &seam);
}

// A path that the row takes: in the arena of the exchange, or static.
static const char *path_of(const struct gw_route *route, char out[256])
{
    const char *tenant = route->match == GW_ROUTE_TENANT ? "/default" : "";
    const char *rest = route->match == GW_ROUTE_IS       ? ""
                       : route->who == GW_FOR_ONE_DEVICE ? DIGEST "/" DIGEST
                       : route->handle == gw_blob_handle ? DIGEST
                                                         : "x";
    snprintf(out, 256, "%s%.*s%s", tenant, (int)route->path.size, route->path.data, rest);
    return out;
}

static int ask(struct rig *rig, enum gw_method method, const char *path)
{
    struct rig_exchange exchange;
    rig_exchange_init(&exchange, method, path);
    exchange.exchange.request.device = BASE_STR("0000000000000042");
    struct gw_head head;
    (void)gw_core_head(rig->worker.worker, &exchange.exchange, &head); // as if a body were to come
    rig_run(rig, &exchange);
    int status = exchange.exchange.reply.status;
    rig_exchange_done(&exchange);
    return status;
}

static void start(struct rig *rig)
{
    rig_init(rig);
    rig->device_auth_required = true;
    rig_start(rig);
    gw_core_set_console(rig->core, no_page);
}

static void test_rows_are_found(void **state)
{
    struct rig rig;
    size_t count = 0;
    const struct gw_route *routes = gw_routes(&count);
    (void)state;
    start(&rig);
    set_all(rig.core, GW_METRICS_TOKEN);
    for (size_t i = 0; i < count; i++) {
        char path[256];
        const struct gw_route *found =
            gw_route_find(rig.worker.worker, base_str_of(path_of(&routes[i], path)));
        if (found != &routes[i]) {
            fail_msg("%s: found another row, or none", path);
        }
        assert_true(routes[i].methods != 0 && routes[i].handle != NULL);
        // Whose methods are the handler's affair wants to see the headers.
        assert_true(routes[i].methods != GW_ROUTE_ANY || routes[i].head != NULL);
    }
    rig_done(&rig);
}

static void test_what_is_the_upstreams(void **state)
{
    static const char *const paths[] = {"",
                                        "x",
                                        "/index.html",
                                        "/v2/checkin",
                                        "/v2",
                                        "/v2/models/m/infer",
                                        "/inference.GRPCInferenceService/ModelInfer",
                                        "/metrics/",
                                        "/healthzz",
                                        "/v1",
                                        "/api",
                                        "/default/controller/v1/x"};
    struct rig rig;
    (void)state;
    start(&rig);
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        if (gw_route_find(rig.worker.worker, base_str_of(paths[i])) != NULL) {
            fail_msg("%s: is no path of the gateway", paths[i]);
        }
        assert_int_equal(ask(&rig, GW_METHOD_GET, paths[i]), 404);
    }
    // And what looks like ours is not, whatever it is.
    assert_int_equal(ask(&rig, GW_METHOD_GET, "/v1/nothing"), 404);
    assert_int_equal(ask(&rig, GW_METHOD_GET, "/v1/controller/v1/x"), 404);
    assert_int_equal(ask(&rig, GW_METHOD_POST, "/api/v2/tasks"), 404);
    rig_done(&rig);
}

static void test_other_methods(void **state)
{
    struct rig rig;
    size_t count = 0;
    const struct gw_route *routes = gw_routes(&count);
    (void)state;
    start(&rig);
    set_all(rig.core, GW_METRICS_TOKEN);
    for (size_t i = 0; i < count; i++) {
        char path[256];
        if (routes[i].methods == GW_ROUTE_ANY) {
            continue;
        }
        enum gw_method other =
            gw_route_takes(&routes[i], GW_METHOD_POST) ? GW_METHOD_GET : GW_METHOD_POST;
        assert_int_equal(ask(&rig, other, path_of(&routes[i], path)), 405);
        assert_int_equal(ask(&rig, GW_METHOD_PUT, path), 405);
    }
    rig_done(&rig);
}

static void test_who_shows_nothing(void **state)
{
    static const bool asks[GW_ROUTE_WHO_COUNT] = {
        [GW_FOR_DEVICES] = true,  [GW_FOR_ONE_DEVICE] = true, [GW_FOR_ENROLMENT] = true,
        [GW_FOR_UPDATERS] = true, [GW_FOR_WATCHERS] = true,   [GW_FOR_OPERATORS] = true,
        [GW_FOR_LOGIN] = true,    [GW_FOR_CALLERS] = true};
    struct rig rig;
    size_t count = 0;
    const struct gw_route *routes = gw_routes(&count);
    (void)state;
    start(&rig);
    set_all(rig.core, GW_METRICS_TOKEN);
    rig.core->set.metrics_access = GW_METRICS_TOKEN;
    for (size_t i = 0; i < count; i++) {
        char path[256];
        enum gw_method method =
            gw_route_takes(&routes[i], GW_METHOD_GET) ? GW_METHOD_GET : GW_METHOD_POST;
        int status = ask(&rig, method, path_of(&routes[i], path));
        if (asks[routes[i].who] != (status == 401)) {
            fail_msg("%s: %d to whoever shows nothing", path, status);
        }
    }
    rig_done(&rig);
}

static void test_heads(void **state)
{
    struct rig rig;
    size_t count = 0;
    const struct gw_route *routes = gw_routes(&count);
    (void)state;
    start(&rig);
    set_all(rig.core, GW_METRICS_TOKEN);
    for (size_t i = 0; i < count; i++) {
        struct rig_exchange exchange;
        struct gw_head head;
        char path[256];
        bool any = routes[i].methods == GW_ROUTE_ANY;
        enum gw_method method =
            gw_route_takes(&routes[i], GW_METHOD_GET) ? GW_METHOD_GET : GW_METHOD_POST;
        rig_exchange_init(&exchange, method, path_of(&routes[i], path));
        bool wanted = gw_core_head(rig.worker.worker, &exchange.exchange, &head);
        assert_ptr_equal(exchange.exchange.route, &routes[i]);
        assert_int_equal(head.size, routes[i].body);
        assert_true(wanted || routes[i].head != NULL);
        // A method that nothing takes needs no body to be refused.
        exchange.exchange.request.method = GW_METHOD_DELETE;
        assert_true(any || !gw_core_head(rig.worker.worker, &exchange.exchange, &head));
        rig_exchange_done(&exchange);
    }
    rig_done(&rig);
}

static const char *bearer_of(struct rig *rig, char out[GW_SECRET_TEXT_BYTES + 8])
{
    struct gw_token_view wish = {.role = GW_ROLE_VIEWER, .name = "viewer"};
    struct gw_token_view made;
    char text[GW_SECRET_TEXT_BYTES + 1];
    struct base_error error = {0};
    assert_int_equal(gw_token_create(rig->core, &wish, &made, text, &error), BASE_OK);
    snprintf(out, GW_SECRET_TEXT_BYTES + 8, "Bearer %s", text);
    return out;
}

// Who calls models: whom the setting lets in, an operator, a device that shows who it is.
static void test_callers(void **state)
{
    static const struct {
        enum gw_metrics_access access;
        bool loopback;
        bool token;
        int status;
    } cases[] = {
        {GW_METRICS_LOOPBACK, true, false, 200}, {GW_METRICS_LOOPBACK, false, false, 401},
        {GW_METRICS_OPEN, false, false, 200},    {GW_METRICS_TOKEN, true, false, 401},
        {GW_METRICS_TOKEN, false, true, 200},    {GW_METRICS_LOOPBACK, false, true, 200},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct rig rig;
        struct rig_exchange exchange;
        char bearer[GW_SECRET_TEXT_BYTES + 8];
        start(&rig);
        set_all(rig.core, cases[i].access);
        rig_exchange_init(&exchange, GW_METHOD_POST, "/v2/models/m/infer");
        exchange.exchange.request.loopback = cases[i].loopback;
        if (cases[i].token) {
            exchange.exchange.request.authorization = base_str_of(bearer_of(&rig, bearer));
        }
        struct gw_head head;
        bool wanted = gw_core_head(rig.worker.worker, &exchange.exchange, &head);
        assert_int_equal(wanted, cases[i].status == 200);
        rig_run(&rig, &exchange);
        assert_int_equal(exchange.exchange.reply.status, cases[i].status);
        rig_exchange_done(&exchange);
        rig_done(&rig);
    }
}

// What is shown counts, whomever the setting lets in without: what is wrong is none, and a page of
// another site does not call from the machine it runs on.
static void test_callers_who_are_refused(void **state)
{
    static const struct {
        enum gw_metrics_access access;
        const char *authorization;
        const char *credential;
        uint64_t certificate; // the device of it; 0: none
        const char *site;
        const char *origin;
        int status;
    } cases[] = {
        {.access = GW_METRICS_LOOPBACK, .status = 200},
        {.access = GW_METRICS_LOOPBACK, .authorization = "Bearer wrong", .status = 401},
        {.access = GW_METRICS_OPEN, .authorization = "Bearer wrong", .status = 401},
        {.access = GW_METRICS_OPEN, .authorization = "Basic eDp5", .status = 401},
        {.access = GW_METRICS_LOOPBACK, .credential = "wrong", .status = 401},
        {.access = GW_METRICS_OPEN, .credential = "wrong", .status = 401},
        {.access = GW_METRICS_OPEN, .certificate = 0x43, .status = 401}, // another device's
        {.access = GW_METRICS_TOKEN, .certificate = 0x43, .status = 401},
        {.access = GW_METRICS_TOKEN, .certificate = 0x42, .status = 200},
        {.access = GW_METRICS_LOOPBACK, .site = "cross-site", .status = 403},
        {.access = GW_METRICS_LOOPBACK, .site = "same-site", .status = 403},
        {.access = GW_METRICS_LOOPBACK, .site = "same-origin", .status = 200},
        {.access = GW_METRICS_LOOPBACK, .origin = "http://evil.example", .status = 403},
        {.access = GW_METRICS_LOOPBACK, .origin = "null", .status = 403},
        {.access = GW_METRICS_LOOPBACK, .origin = "http://127.0.0.1:1", .status = 200},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct rig rig;
        struct rig_exchange exchange;
        struct gw_request *request = &exchange.exchange.request;
        struct gw_head head;
        start(&rig);
        set_all(rig.core, cases[i].access);
        rig_exchange_init(&exchange, GW_METHOD_POST, "/v2/models/m/infer");
        request->loopback = true;
        request->authority = BASE_STR("127.0.0.1:1");
        request->device = BASE_STR("0000000000000042");
        request->authorization = base_str_of(cases[i].authorization);
        request->credential = base_str_of(cases[i].credential);
        request->has_certificate = cases[i].certificate != 0;
        request->certificate_device = cases[i].certificate;
        request->fetch_site = base_str_of(cases[i].site);
        request->origin = base_str_of(cases[i].origin);
        bool wanted = gw_core_head(rig.worker.worker, &exchange.exchange, &head);
        rig_run(&rig, &exchange);
        if (wanted != (cases[i].status == 200) ||
            exchange.exchange.reply.status != cases[i].status) {
            fail_msg("case %zu: %d, wanted %d", i, exchange.exchange.reply.status, cases[i].status);
        }
        rig_exchange_done(&exchange);
        rig_done(&rig);
    }
}

// One path alone is the tunnel's and may come early, and one stays open for the core; with POST.
static void test_the_tunnel(void **state)
{
    struct rig rig;
    size_t count = 0;
    const struct gw_route *routes = gw_routes(&count);
    struct gw_exchange exchange = {.request.method = GW_METHOD_POST};
    (void)state;
    start(&rig);
    for (size_t i = 0; i < count; i++) {
        bool tunnel = base_str_equal(routes[i].path, BASE_STR("/v1/tunnel"));
        bool stream = base_str_equal(routes[i].path,
                                     BASE_STR("/inference.GRPCInferenceService/ModelStreamInfer"));
        exchange.route = &routes[i];
        assert_int_equal(gw_route_has(&exchange, GW_ROUTE_DUPLEX), tunnel);
        assert_int_equal(gw_route_has(&exchange, GW_ROUTE_EARLY), tunnel);
        assert_int_equal(gw_route_has(&exchange, GW_ROUTE_OPEN), stream);
    }
    exchange.route = gw_route_find(rig.worker.worker, BASE_STR("/v1/tunnel"));
    exchange.request.method = GW_METHOD_GET;
    assert_false(gw_route_has(&exchange, GW_ROUTE_EARLY));
    exchange.route = NULL;
    assert_false(gw_route_has(&exchange, GW_ROUTE_EARLY));
    rig_done(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_found), cmocka_unit_test(test_what_is_the_upstreams),
        cmocka_unit_test(test_other_methods),  cmocka_unit_test(test_who_shows_nothing),
        cmocka_unit_test(test_heads),          cmocka_unit_test(test_the_tunnel),
        cmocka_unit_test(test_callers),        cmocka_unit_test(test_callers_who_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
