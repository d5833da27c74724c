// SPDX-License-Identifier: MIT OR Apache-2.0
// The {{ count }} largest of up to 2³² − 1 items, from the largest down, equal ones in the order of their indices, NaN last.
//
// One workgroup does everything: four passes count the keys by their next eight bits and so find the smallest key that
// is chosen and how many of that key; one pass collects the chosen; each of them is written to the place that the
// number of better ones says.
//
{%- if candidates %}
// logits  [queries][{{ stride }}], {{ classes }} used; item i is class i mod {{ classes }} of query i / {{ classes }}
// boxes   [queries] vec4<f32>
// dst     [{{ count }}][2] vec4<u32>: (query, class, logit, 0), box; logit and box as bits of f32
{%- else %}
// keys     [count] u32 (rank.wgsl)
// dst      [{{ count }}] u32, indices
{%- endif %}
{% if half %}enable f16;
{% endif %}
@group(0) @binding(0) var<uniform> count: vec4<u32>;
{%- if candidates %}
@group(0) @binding(1) var<storage, read> logits: array<{{ in_t }}>;
@group(0) @binding(2) var<storage, read> boxes: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dst: array<vec4<u32>>;

{% include "shared/key.wgsl" %}

fn logit(i: u32) -> f32 {
    return f32(logits[i / {{ classes }}u * {{ stride }}u + i % {{ classes }}u]);
}

fn key_of(i: u32) -> u32 {
    return key(logit(i));
}
{%- else %}
@group(0) @binding(1) var<storage, read> keys: array<u32>;
@group(0) @binding(2) var<storage, read_write> dst: array<u32>;

fn key_of(i: u32) -> u32 {
    return keys[i];
}
{%- endif %}

var<workgroup> sh_bins: array<atomic<u32>, 256>;
var<workgroup> sh_scan: array<u32, {{ threads }}>;
var<workgroup> sh_digit: u32;
var<workgroup> sh_left: u32;
var<workgroup> sh_taken: atomic<u32>;
var<workgroup> sh_chosen: array<vec2<u32>, {{ count }}>;  // key, index

// The sum of `v` over the invocations up to this one.
fn scan(v: u32, local: u32) -> u32 {
    workgroupBarrier();
    sh_scan[local] = v;
    for (var reach = 1u; reach < {{ threads }}u; reach *= 2u) {
        workgroupBarrier();
        var more = 0u;
        if local >= reach {
            more = sh_scan[local - reach];
        }
        workgroupBarrier();
        sh_scan[local] += more;
    }
    return sh_scan[local];
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(local_invocation_index) local: u32) {
    if local == 0u {
        sh_left = {{ count }}u;
        atomicStore(&sh_taken, 0u);
    }
    var prefix = 0u;
    var known = 0u;
    for (var turn = 0u; turn < 4u; turn++) {
        let shift = 24u - 8u * turn;
        if local < 256u {
            atomicStore(&sh_bins[local], 0u);
        }
        workgroupBarrier();
        let left = sh_left;
        // Runs of one bin are counted before they are added: most keys share their first bits.
        var bin = 0u;
        var run = 0u;
        for (var i = local; i < count.x; i += {{ threads }}u) {
            let k = key_of(i);
            if (k & known) == prefix {
                let digit = (k >> shift) & 255u;
                if digit != bin {
                    if run > 0u {
                        atomicAdd(&sh_bins[bin], run);
                    }
                    bin = digit;
                    run = 0u;
                }
                run++;
            }
        }
        if run > 0u {
            atomicAdd(&sh_bins[bin], run);
        }
        workgroupBarrier();
        // From the largest digit down.
        var mine = 0u;
        if local < 256u {
            mine = atomicLoad(&sh_bins[255u - local]);
        }
        let upto = scan(mine, local);
        if upto >= left && upto - mine < left {
            sh_digit = 255u - local;
            sh_left = left - (upto - mine);
        }
        workgroupBarrier();
        prefix |= sh_digit << shift;
        known |= 255u << shift;
    }

    // All keys above `prefix` are chosen, and the first `left` of those equal to it.
    let left = sh_left;
    let share = (count.x + {{ threads - 1 }}u) / {{ threads }}u;
    let first = min(local * share, count.x);
    let end = min(first + share, count.x);
    var equal = 0u;
    for (var i = first; i < end; i++) {
        equal += u32(key_of(i) == prefix);
    }
    var before = scan(equal, local) - equal;
    for (var i = first; i < end; i++) {
        let k = key_of(i);
        var chosen = k > prefix;
        if k == prefix {
            chosen = before < left;
            before++;
        }
        if chosen {
            sh_chosen[atomicAdd(&sh_taken, 1u)] = vec2<u32>(k, i);
        }
    }
    workgroupBarrier();
    for (var i = local; i < {{ count }}u; i += {{ threads }}u) {
        let item = sh_chosen[i];
        var place = 0u;
        for (var j = 0u; j < {{ count }}u; j++) {
            let other = sh_chosen[j];
            place += u32(other.x > item.x || (other.x == item.x && other.y < item.y));
        }
{%- if candidates %}
        let query = item.y / {{ classes }}u;
        dst[place * 2u] = vec4<u32>(query, item.y % {{ classes }}u, bitcast<u32>(logit(item.y)), 0u);
        dst[place * 2u + 1u] = bitcast<vec4<u32>>(boxes[query]);
{%- else %}
        dst[place] = item.y;
{%- endif %}
    }
}
