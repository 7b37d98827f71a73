import tf_keras

from tfx_gnn.keras import clone_initializer


def test_a_clone_gives_values_of_its_own():
    one = tf_keras.initializers.GlorotUniform()

    other = clone_initializer(one)

    assert type(other) is type(one)
    assert other is not one
    assert (one([4, 4]).numpy() != other([4, 4]).numpy()).any()


def test_options_and_explicit_seeds_are_kept():
    one = tf_keras.initializers.TruncatedNormal(mean=3.0, seed=7)

    other = clone_initializer(one)

    assert other.get_config() == one.get_config()
    assert (one([4]).numpy() == other([4]).numpy()).all()


def test_other_specifications_pass_through():
    for specification in ("zeros", None, {"class_name": "Zeros", "config": {}}):
        assert clone_initializer(specification) is specification
