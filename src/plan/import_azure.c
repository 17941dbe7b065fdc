/* import_azure.c - Retail Prices: {"Items": [...]}, an item a meter. Linux only; a reservation's price
 * is that of its whole term. */
#include "base/json.h"
#include "plan/import_int.h"

static const f64 year_h = 8760;

static void add_item(struct offers *o, const struct json *item)
{
    struct str name = json_text(item, STR("armSkuName")), type = json_text(item, STR("type"));
    struct str sku  = json_text(item, STR("skuName")),
               term = json_text(item, STR("reservationTerm"));
    f64 usd;
    if (!offers_wants(o, json_text(item, STR("armRegionName")))) return;
    if (!str_eq(json_text(item, STR("currencyCode")), STR("USD"))) return;
    if (str_glob(STR("*Windows*"), json_text(item, STR("productName")))) return;
    if (str_glob(STR("*Low Priority*"), sku) || !json_f64(json_get(item, STR("retailPrice")), &usd))
        return;
    if (str_starts(name, STR("Standard_"))) name = str_sub(name, 9, name.len);
    if (!name.len) return;
    struct offer *offer = offers_get(o, name, STR(""), 0);
    if (!offer) return;
    if (str_eq(type, STR("Reservation"))) {
        if (str_eq(term, STR("1 Year"))) offer_price(offer, PRICE_RESERVED_1Y, usd / year_h);
        if (str_eq(term, STR("3 Years"))) offer_price(offer, PRICE_RESERVED_3Y, usd / year_h / 3);
    } else if (str_eq(type, STR("Consumption"))) {
        offer_price(offer, str_ends(sku, STR(" Spot")) ? PRICE_SPOT : PRICE_ON_DEMAND, usd);
    }
}

enum status import_azure(struct offers *o, struct str text)
{
    return offers_each(o, text, STR("Items"), add_item);
}
