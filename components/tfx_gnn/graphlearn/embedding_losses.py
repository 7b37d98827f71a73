"""GraphLearn's losses of embeddings against sampled negatives.

They are for training steps of one's own, where pairs are no `_readout` nodes; `LinkPrediction` is the task for those.
All are means over the rows given, so padding must be left out before.
"""

from __future__ import annotations

import tensorflow as tf


def sigmoid_cross_entropy_loss(pos_logit: tf.Tensor, neg_logit: tf.Tensor) -> tf.Tensor:
    """Asks true pairs for 1 and drawn ones for 0: the mean over the former plus the mean over the latter.

    Args:
        pos_logit: float, any shape: scores of true pairs.
        neg_logit: float, any shape: scores of drawn pairs.

    Returns:
        Scalar.

    Example:
        >>> round(float(sigmoid_cross_entropy_loss(tf.constant([0.0]), tf.constant([0.0, 0.0]))), 4)
        1.3863
    """
    return tf.reduce_mean(tf.nn.softplus(-pos_logit)) + tf.reduce_mean(tf.nn.softplus(neg_logit))


def unsupervised_softmax_cross_entropy_loss(
    src_emb: tf.Tensor, pos_emb: tf.Tensor, neg_emb: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """Asks each source for its target among that target and the negatives of the whole batch.

    Args:
        src_emb: float [n, units].
        pos_emb: float [n, units], the target of each source.
        neg_emb: float [m, units], drawn nodes; each source is set against all of them.
        temperature: what inner products are divided by, above 0.

    Returns:
        Scalar, mean over sources of the cross entropy.

    Raises:
        ValueError: if the temperature is not above 0.
    """
    if temperature <= 0.0:
        raise ValueError(f"`temperature` must be above 0; got {temperature}. Usual are 0.05 to 1.")
    true = tf.reduce_sum(src_emb * pos_emb, axis=-1, keepdims=True)
    drawn = tf.linalg.matmul(src_emb, neg_emb, transpose_b=True)
    log_shares = tf.nn.log_softmax(tf.concat([true, drawn], axis=-1) / temperature)
    return -tf.reduce_mean(log_shares[:, 0])


def triplet_margin_loss(  # noqa: PLR0917 - the arguments are GraphLearn's.
    pos_src_emb: tf.Tensor,
    pos_edge_emb: tf.Tensor,
    pos_dst_emb: tf.Tensor,
    neg_src_emb: tf.Tensor,
    neg_edge_emb: tf.Tensor,
    neg_dst_emb: tf.Tensor,
    margin: float,
    neg_num: int,
    L: int = 1,  # noqa: N803 - GraphLearn's name.
) -> tf.Tensor:
    """Asks drawn triplets to be farther than the true one by a margin (TransE, Bordes et al. 2013).

    The distance of a triplet is that of source + edge from target.

    Args:
        pos_src_emb: float [n, units], sources of true triplets.
        pos_edge_emb: float [n, units], their relations.
        pos_dst_emb: float [n, units], their targets.
        neg_src_emb: float [n * neg_num, units], sources of drawn triplets: `neg_num` for the first true
            triplet, then for the second, and so on.
        neg_edge_emb: float [n * neg_num, units], their relations.
        neg_dst_emb: float [n * neg_num, units], their targets.
        margin: how much farther.
        neg_num: drawn triplets for each true one, at least 1.
        L: 1 for the sum of absolute differences, 2 for that of squared ones.

    Returns:
        Scalar, mean over drawn triplets.

    Raises:
        ValueError: if `L` is neither 1 nor 2, or `neg_num` is below 1.
    """
    if L not in (1, 2):
        raise ValueError(f"`L` must be 1 or 2; got {L}. Choose absolute or squared differences.")
    if neg_num < 1:
        raise ValueError(f"`neg_num` must be at least 1; got {neg_num}. Draw negatives.")
    size = tf.abs if L == 1 else tf.square
    true = tf.reduce_sum(size(pos_src_emb + pos_edge_emb - pos_dst_emb), axis=-1)
    drawn = tf.reduce_sum(size(neg_src_emb + neg_edge_emb - neg_dst_emb), axis=-1)
    return tf.reduce_mean(tf.nn.relu(margin + tf.repeat(true, neg_num) - drawn))


def triplet_softplus_loss(  # noqa: PLR0917 - the arguments are GraphLearn's.
    pos_src_emb: tf.Tensor,
    pos_edge_emb: tf.Tensor,
    pos_dst_emb: tf.Tensor,
    neg_src_emb: tf.Tensor,
    neg_edge_emb: tf.Tensor,
    neg_dst_emb: tf.Tensor,
) -> tf.Tensor:
    """Asks true triplets for high and drawn ones for low scores (DistMult, arXiv:1412.6575).

    The score of a triplet is the sum of the product of source, edge and target.

    Args:
        pos_src_emb: float [n, units], sources of true triplets.
        pos_edge_emb: float [n, units], their relations.
        pos_dst_emb: float [n, units], their targets.
        neg_src_emb: float [m, units], sources of drawn triplets.
        neg_edge_emb: float [m, units], their relations.
        neg_dst_emb: float [m, units], their targets.

    Returns:
        Scalar: half of the mean over true triplets plus the mean over drawn ones.
    """
    true = tf.reduce_sum(pos_src_emb * pos_edge_emb * pos_dst_emb, axis=-1)
    drawn = tf.reduce_sum(neg_src_emb * neg_edge_emb * neg_dst_emb, axis=-1)
    return 0.5 * sigmoid_cross_entropy_loss(true, drawn)
