/* product.c - a matmul call made up on the spot. */
#include "backend/cpu/fast/product.h"

struct made { /* points into itself: not to be copied */
    struct call   call;
    struct tensor in[2], out;
    struct attrs  at;
};

static struct tensor tensor_of(const struct product *p, const void *data, struct shape s)
{
    return (struct tensor){ (void *)(uintptr_t)data, type_of(p->dtype, s), shape_count(s) };
}

static const struct kernel *make(struct made *m, const struct product *p)
{
    struct shape c = shape_2(p->a_shape.dim[p->ta ? 1 : 0], p->b_shape.dim[p->tb ? 0 : 1]);
    *m = (struct made){ .in  = { tensor_of(p, p->a, p->a_shape), tensor_of(p, p->b, p->b_shape) },
                        .out = tensor_of(p, p->c, c),
                        .at  = { .ta = p->ta, .tb = p->tb } };
    m->call = (struct call){ OP_MATMUL, &m->at, m->in, 2, &m->out, NULL, 0, NULL, NULL };
    return kernel_choose(&m->call, false);
}

i64 product_work(const struct product *p)
{
    struct made          m;
    const struct kernel *k = make(&m, p);
    return k->work ? k->work(&m.call) : 0;
}

void product_run(const struct product *p, struct pool *pool, void *work)
{
    struct made          m;
    const struct kernel *k = make(&m, p);
    m.call.pool            = pool;
    m.call.work            = work;
    m.call.work_bytes      = k->work ? k->work(&m.call) : 0;
    k->run(&m.call);
}
