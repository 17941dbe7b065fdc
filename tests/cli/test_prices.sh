#!/bin/sh
# test_prices.sh: frugal prices shows, filters, takes a user's file and imports lists.
. "$(dirname "$0")/common.sh"
unset FRUGAL_PRICES XDG_CONFIG_HOME
HOME=$folder
export HOME
lists=$top/tests/fuzz/corpus/prices

# Prices that are older than 90 days have a mark, each its own.
export FRUGAL_TODAY=2026-11-21
run 0 prices
has out '^aws +p4d.24xlarge +us +8 x A100-40 +96 +1152 +21.96[*] +16.44[*] +25 % .* +2026-08-22$'
has err '[*] is older than 90 days'
export FRUGAL_TODAY=2026-11-20
run 0 prices
has out '^cloud +machine'
lacks out '^aws .*[*]'
has out '^aws +p4d.24xlarge +us +8 x A100-40 +96 +1152 +21.96 +16.44 +25 % +- +- +- +2026-08-22'
has err 'not known'
[ "$(grep -c . out)" -gt 60 ] || fail 'prices lists too little'
unset FRUGAL_TODAY
run 0 prices --on gcp --gpu L4 --spot
[ "$(tail -n +2 out | cut -d' ' -f1 | sort -u)" = gcp ] || fail '--on gcp lists others'
lacks out 'A100'
run 0 prices --sort gpu --gpu 'H*'
has out 'H200-141'
lacks out 'A100'
run 1 prices --on nowhere
# A region filters; a flag that would be ignored is an error.
run 0 prices --region us-central1
has out '^gcp +a2-highgpu-1g'
lacks out '^(aws|lambda|azure) '
run 0 prices a2-highgpu-1g --region us
run 0 prices aws/p4d.24xlarge --region us-east-1
run 2 prices --region mars-1
has err '^--region mars-1: the catalogue has no price there; '
run 2 prices --on aws --region us-central1
has err 'aws has no region of that name; it is one of gcp$'
run 2 prices gpus --region us
has err '^--region is not used by `frugal prices gpus`$'
run 2 prices p4d.24xlarge --sort age
has err '^--sort is not used by `frugal prices MACHINE`$'
run 2 prices --sort beauty
has err 'price.spot.gpu.age'
run 0 prices p4d.24xlarge
has out 'net_gbit_s +~400'
has out 'reserved_1y_usd_h +not known'
has out 'free_interrupted_s +3600'
has out 'an hour of one: \$[0-9.]+ on demand, \$[0-9.]+ spot; all 8 are sold together'
has out 'memory_usable_gib +~37.2'
run 1 prices p4d.24xlarges
has err 'no machine p4d.24xlarges \(did you mean p4d.24xlarge\?\)'
run 0 prices gpus --json
has out '"event":"gpu","gpu":"H200-141"'
FRUGAL_TODAY=yesterday "$frugal" prices storage >out 2>err
[ $? = 2 ] || fail 'FRUGAL_TODAY=yesterday is no day'
has err '^FRUGAL_TODAY is yesterday; expected a day like 2026-11-17$'
FRUGAL_PRICES=nosuch.csv "$frugal" prices storage >out 2>err
[ $? = 2 ] || fail 'FRUGAL_PRICES names no file'
has err '^FRUGAL_PRICES is nosuch.csv, which cannot be found$'
FRUGAL_TODAY=2026-09-03 "$frugal" prices storage >out 2>err
has out '^  aws +deep_archive .* 2024-07-01[*] '
has out '^  aws +glacier_ir .* 2026-06-05  '
has err '[*] is older than 90 days'
FRUGAL_TODAY=2026-09-04 "$frugal" prices storage >out
has out '^  aws +glacier_ir .* 2026-06-05[*] '
run 0 prices storage --json
lacks out '[*]'
run 0 prices billing
run 0 prices cpus
run 0 prices p4d.24xlarge --json
has out '"own_usd_h":null.*"assumed":\["net_gbit_s"\]'

# A user's file is laid over; a bad one is refused with its line.
printf 'provider,instance,region,own_usd_h,reserved_1y_usd_h,as_of\naws,p4d.24xlarge,us,13.2,14.5,2020-01-01\n' >own.csv
run 0 prices p4d.24xlarge --prices own.csv
has out 'own_usd_h +13.2'
has out 'reserved 1y is cheaper if used more than 66 % of all hours'
run 0 prices --prices own.csv --on aws
has out '14.50[*] +- +13.20[*] +2020-01-01$'
printf 'provider,instance,region,own_usd_h\naws,p4d.24xlarge,us,cheap\n' >own.csv
run 2 prices --prices own.csv
has err 'own.csv:2: "cheap" in column own_usd_h should be a number'
run 3 prices --prices missing.csv

# Importing: into ~/.config by default, again and again; several lists at once.
mkdir aws gcp
tail -c +2 "$lists/skypilot_aws.csv" >aws/vms.csv
tail -c +2 "$lists/skypilot_gcp.csv" >gcp/vms.csv
tail -c +2 "$lists/aws.json" >aws.json
tail -c +2 "$lists/azure.json" >azure.json
tail -c +2 "$lists/gcp.json" >gcp.json
run 0 prices import skypilot aws/vms.csv gcp/vms.csv
has out '^6 machines written to .*/.config/frugal/prices.csv; skipped: 1 of unknown hardware, '
run 0 prices p4d.24xlarge
has out 'spot_usd_h +14$'
# AWS has no spot prices in its list: the spot price of before stays, as old as it was.
FRUGAL_TODAY=2026-11-04
export FRUGAL_TODAY
touch -d 2026-01-02 aws/vms.csv
run 0 prices import skypilot aws/vms.csv
run 0 prices import aws aws.json
run 0 prices p4d.24xlarge
has out 'spot_usd_h +14$'
has out '^  on-demand price: 2026-11-03, imported from aws$'
has out '^  spot price: 2026-01-02 \(old\), imported from skypilot$'
run 0 prices p4d.24xlarge --json
has out '"as_of":"2026-01-02".*"on_demand_as_of":"2026-11-03".*"spot_as_of":"2026-01-02","spot_source":"imported from skypilot".*"age_days":306'
run 0 plan gpt2 --tokens 1e9 --machine p4d.24xlarge --gpus 8
has out ' spot\* aws p4d.24xlarge$'
has out ' on-demand  aws p4d.24xlarge$'
unset FRUGAL_TODAY
run 0 prices p4d.24xlarge
has out 'reserved 3y is cheaper if used more than 45 % of all hours'
run 0 prices import azure azure.json --json
has out '"event":"imported".*"machines":1,"passed_over":1'
run 0 prices import gcp gcp.json --prices other.csv
run 0 prices a2-highgpu-8g --prices other.csv
has out 'on_demand_usd_h +29.38'
# A list without a price of a machine says nothing about it.
run 0 prices import gcp "$top/tests/unit/prices/gcp_skus.json" --prices skus.csv
has out '^2 machines written .* 9 without a price in the list$'
[ "$(grep -c . skus.csv)" = 3 ] || fail 'rows without a price are written'
FRUGAL_TODAY=2027-06-01 "$frugal" prices a2-highgpu-1g --prices skus.csv >out 2>err
has out '^  on-demand price: 2026-08-21 \(old\), '
lacks out 'imported'
run 1 prices import aws aws.json --region eu-west-1
run 2 prices import aws aws.json --region us-central1
has err 'aws has no region of that name'
run 2 prices import aws aws.json --gpu H100
has err '^--gpu is not used by `frugal prices import`$'
run 2 prices import nosuch missing.json
has err '^there is no price list "nosuch"; it is one of aws.gcp.azure.skypilot$'
run 2 prices import
has err 'aws.gcp.azure.skypilot'
run 2 prices import aws azure.json
has err 'azure.json: it has no'
run 2 prices import skypilot aws.json --on aws
run 3 prices import aws missing.json
exit $failed
