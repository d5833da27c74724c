// SPDX-License-Identifier: MIT OR Apache-2.0
//! Activation functions.

/// An activation of a layer; layers without one hold `None` of an `Option<Activation>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `max(v, 0)`.
    Relu,
    /// `v·sigmoid(v)`, also called swish.
    Silu,
    /// The exact form, `v·(1 + erf(v/√2))/2`.
    Gelu,
}

impl Activation {
    /// The activation of one value.
    pub fn apply(self, v: f32) -> f32 {
        match self {
            // Not `v.max(0.0)`, which would turn a NaN into 0 and hide it.
            Self::Relu if v <= 0.0 => 0.0,
            Self::Relu => v,
            Self::Silu => v / (1.0 + (-v).exp()),
            Self::Gelu => {
                let v = f64::from(v);
                (0.5 * v * (1.0 + libm::erf(v * std::f64::consts::FRAC_1_SQRT_2))) as f32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Activation::{Gelu, Relu, Silu};

    #[test]
    fn known_values() {
        let close = |got: f32, want: f32| assert!((got - want).abs() < 1e-6, "{got} is not {want}");
        assert_eq!([-2.0, 0.0, 3.0].map(|v| Relu.apply(v)), [0.0, 0.0, 3.0]);
        close(Silu.apply(1.0), 0.731_058_6);
        close(Silu.apply(-2.0), -0.238_405_84);
        close(Gelu.apply(1.0), 0.841_344_7);
        close(Gelu.apply(-0.5), -0.154_268_77);
        // The ends neither overflow nor become NaN, and a NaN stays visible.
        assert_eq!(Silu.apply(-1e30), -0.0);
        assert_eq!(Gelu.apply(1e30), 1e30);
        assert!([Relu, Silu, Gelu].iter().all(|a| a.apply(f32::NAN).is_nan()));
    }
}
