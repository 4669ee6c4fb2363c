// The sliding window of convolutions and pools: attributes, automatic padding, output dims.
//
// Called by the handlers of this folder on the planning thread. Declared in nn_kit.h. All numbers
// come from the model: each is checked against WINDOW_MAX before it is multiplied.
#include "lower/ops/nn_kit.h"

#include "base/check.h"

// Largest stride, dilation, kernel or pad: its product with a dimension stays within 63 bits.
#define WINDOW_MAX ((int64_t)1 << 20)

// An attribute with a number for each spatial dim; 1 where it is not there.
static enum base_status read_list(struct eng_lower *lower, const struct eng_node *node,
                                  const char *name, uint32_t spatial, int64_t *out)
{
    base_assert(spatial <= ENG_SPATIAL_MAX);
    uint32_t count;
    const int64_t *list = eng_node_ints(node, name, &count);
    if (list != NULL && count != 0 && count != spatial) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "attribute %s has %u values for %u spatial dimensions", name, count,
                              spatial);
    }
    for (uint32_t i = 0; i < spatial; i++) {
        out[i] = count != 0 ? list[i] : 1;
        if (out[i] < 1 || out[i] > WINDOW_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "attribute %s: %lld is out of range", name, (long long)out[i]);
        }
    }
    return BASE_OK;
}

static enum base_status read_pads(struct eng_lower *lower, const struct eng_node *node,
                                  struct eng_window *window)
{
    base_assert(window->spatial >= 1 && window->spatial <= ENG_SPATIAL_MAX);
    uint32_t count;
    const int64_t *pads = eng_node_ints(node, "pads", &count);
    if (pads == NULL || count == 0) {
        return BASE_OK;
    }
    if (count != 2 * window->spatial) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "attribute pads has %u values for %u spatial dimensions", count,
                              window->spatial);
    }
    for (uint32_t i = 0; i < count; i++) {
        // Negative pads crop the input; no exporter writes them for windows.
        if (pads[i] < 0 || pads[i] > WINDOW_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "attribute pads: %lld is out of range", (long long)pads[i]);
        }
    }
    for (uint32_t i = 0; i < window->spatial; i++) {
        window->pad_begin[i] = pads[i];
        window->pad_end[i] = pads[window->spatial + i];
    }
    return BASE_OK;
}

enum base_status eng_window_read(struct eng_lower *lower, const struct eng_node *node,
                                 uint32_t spatial, const int64_t *kernel, struct eng_window *out)
{
    if (spatial == 0 || spatial > ENG_SPATIAL_MAX) {
        return eng_lower_fail(lower, node, BASE_ERR_UNSUPPORTED,
                              "%u spatial dimensions; 1 to %d are supported", spatial,
                              ENG_SPATIAL_MAX);
    }
    struct eng_window window = {.spatial = spatial};
    window.auto_pad = eng_node_string(node, "auto_pad", "NOTSET");
    uint32_t count;
    (void)eng_node_ints(node, "kernel_shape", &count);
    if (kernel == NULL && count == 0) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID, "attribute kernel_shape is missing");
    }
    BASE_TRY(read_list(lower, node, "kernel_shape", spatial, window.kernel));
    base_assert(count == 0 || count == spatial);
    for (uint32_t i = 0; kernel != NULL && i < spatial; i++) {
        if (count != 0 && window.kernel[i] != kernel[i]) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "kernel_shape says %lld where the weights have %lld",
                                  (long long)window.kernel[i], (long long)kernel[i]);
        }
        if (kernel[i] < 1 || kernel[i] > WINDOW_MAX) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID, "kernel dimension %u is %lld", i,
                                  (long long)kernel[i]);
        }
        window.kernel[i] = kernel[i];
    }
    BASE_TRY(read_list(lower, node, "strides", spatial, window.stride));
    BASE_TRY(read_list(lower, node, "dilations", spatial, window.dilation));
    if (eng_string_is(window.auto_pad, "NOTSET") || window.auto_pad.size == 0) {
        BASE_TRY(read_pads(lower, node, &window));
    } else if (!eng_string_is(window.auto_pad, "SAME_UPPER") &&
               !eng_string_is(window.auto_pad, "SAME_LOWER") &&
               !eng_string_is(window.auto_pad, "VALID")) {
        return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                              "attribute auto_pad: '%.*s' is unknown", (int)window.auto_pad.size,
                              window.auto_pad.at);
    }
    *out = window;
    return BASE_OK;
}

// Places along one dimension. A ceil-mode window must begin inside the input or its front pad.
static int64_t place(struct eng_window *window, uint32_t index, int64_t in, bool ceil_mode)
{
    base_assert(index < window->spatial);
    base_assert(window->stride[index] >= 1 && window->kernel[index] >= 1);
    int64_t reach = (window->kernel[index] - 1) * window->dilation[index] + 1;
    bool upper = eng_string_is(window->auto_pad, "SAME_UPPER");
    if (upper || eng_string_is(window->auto_pad, "SAME_LOWER")) {
        int64_t out = (in + window->stride[index] - 1) / window->stride[index];
        int64_t total = (out - 1) * window->stride[index] + reach - in;
        total = total < 0 ? 0 : total;
        window->pad_begin[index] = upper ? total / 2 : total - total / 2;
        window->pad_end[index] = total - window->pad_begin[index];
        return out;
    }
    int64_t room = in + window->pad_begin[index] + window->pad_end[index] - reach;
    if (room < 0) {
        return -1;
    }
    int64_t out = room / window->stride[index] + 1;
    if (ceil_mode && room % window->stride[index] != 0 &&
        out * window->stride[index] < in + window->pad_begin[index]) {
        out++;
    }
    return out;
}

enum base_status eng_window_place(struct eng_lower *lower, const struct eng_node *node,
                                  const int64_t *in, bool ceil_mode, struct eng_window *window)
{
    base_assert(window->spatial >= 1 && window->spatial <= ENG_SPATIAL_MAX);
    for (uint32_t i = 0; i < window->spatial; i++) {
        window->out[i] = place(window, i, in[i], ceil_mode);
        if (window->out[i] < 0) {
            return eng_lower_fail(lower, node, BASE_ERR_INVALID,
                                  "the window of %lld is larger than the padded input, %lld",
                                  (long long)((window->kernel[i] - 1) * window->dilation[i] + 1),
                                  (long long)(in[i] + window->pad_begin[i] + window->pad_end[i]));
        }
    }
    return BASE_OK;
}
