"""A perceptron with one hidden layer, its weights and its gradient each in one flat buffer."""

import numpy as np


class Network:
    """Input -> ReLU -> softmax. Weights live outside: the object holds shapes only."""

    def __init__(self, input_count, hidden_count, class_count):
        self.shapes = [(input_count, hidden_count), (hidden_count,),
                       (hidden_count, class_count), (class_count,)]
        self.weight_count = sum(int(np.prod(shape)) for shape in self.shapes)

    def initial_weights(self, seed):
        """He's initialisation: normal weights of variance 2 / inputs, zero biases."""
        weights = np.zeros(self.weight_count, np.float32)
        random = np.random.default_rng([seed, 0])
        for part in self._parts(weights):
            if part.ndim == 2:
                part[:] = random.normal(0, np.sqrt(2 / part.shape[0]), part.shape)
        return weights

    def loss_and_gradient(self, weights, images, labels, gradient):
        """Mean cross-entropy over `images`; its derivative is written into flat `gradient`."""
        w1, b1, w2, b2 = self._parts(weights)
        d_w1, d_b1, d_w2, d_b2 = self._parts(gradient)
        hidden = np.maximum(images @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        logits -= logits.max(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        log_sums = np.log(np.exp(logits).sum(axis=1))
        loss = float((log_sums - logits[rows, labels]).mean())

        d_logits = np.exp(logits - log_sums[:, None])
        d_logits[rows, labels] -= 1
        d_logits /= len(labels)
        d_hidden = (d_logits @ w2.T) * (hidden > 0)
        np.matmul(hidden.T, d_logits, out=d_w2)
        np.sum(d_logits, axis=0, out=d_b2)
        np.matmul(images.T, d_hidden, out=d_w1)
        np.sum(d_hidden, axis=0, out=d_b1)
        return loss

    def accuracy(self, weights, images, labels):
        """Share of `images` that get their label."""
        w1, b1, w2, b2 = self._parts(weights)
        logits = np.maximum(images @ w1 + b1, 0) @ w2 + b2
        return float((logits.argmax(axis=1) == labels).mean())

    def _parts(self, flat):
        """The matrices and biases as views of a flat buffer."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        return [part.reshape(shape)
                for part, shape in zip(np.split(flat, ends[:-1]), self.shapes, strict=True)]
